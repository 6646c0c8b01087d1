// SPDX-License-Identifier: Apache-2.0
// The texts of the page: a row each, in English, German, French, Spanish. {..} is replaced by what the page puts there.
'use strict';

const INTERFACE = {en: 'English', de: 'Deutsch', fr: 'Français', es: 'Español'};

const TEXTS = {
  title: ['Tessera: translate', 'Tessera: Übersetzen', 'Tessera : traduire', 'Tessera: traducir'],
  statusTitle: ['Tessera: status', 'Tessera: Zustand', 'Tessera : état', 'Tessera: estado'],
  skip: ['Skip to the text', 'Zum Text springen', 'Aller au texte', 'Ir al texto'],
  translate: ['Translate', 'Übersetzen', 'Traduire', 'Traducir'],
  status: ['Status', 'Zustand', 'État', 'Estado'],
  pages: ['Pages', 'Seiten', 'Pages', 'Páginas'],
  interfaceLanguage: ['Language of this page', 'Sprache dieser Seite', 'Langue de cette page', 'Idioma de esta página'],
  colourSystem: ['Colours: as the system', 'Farben: wie das System', 'Couleurs : du système', 'Colores: del sistema'],
  colourLight: ['Colours: light', 'Farben: hell', 'Couleurs : claires', 'Colores: claros'],
  colourDark: ['Colours: dark', 'Farben: dunkel', 'Couleurs : sombres', 'Colores: oscuros'],

  from: ['Translate from', 'Übersetzen aus', 'Traduire de', 'Traducir de'],
  to: ['Translate into', 'Übersetzen in', 'Traduire vers', 'Traducir a'],
  detect: ['Detect language', 'Sprache erkennen', 'Détecter la langue', 'Detectar idioma'],
  detected: ['{language} (detected)', '{language} (erkannt)', '{language} (détecté)', '{language} (detectado)'],
  recent: ['Recent', 'Zuletzt', 'Récentes', 'Recientes'],
  all: ['All languages', 'Alle Sprachen', 'Toutes les langues', 'Todos los idiomas'],
  swap: ['Swap languages', 'Sprachen tauschen', 'Inverser les langues', 'Intercambiar idiomas'],

  text: ['Text to translate', 'Text zum Übersetzen', 'Texte à traduire', 'Texto para traducir'],
  write: [
    'Write or paste a text', 'Text schreiben oder einfügen', 'Écrivez ou collez un texte', 'Escriba o pegue un texto',
  ],
  clear: ['Clear the text', 'Text löschen', 'Effacer le texte', 'Borrar el texto'],
  count: ['{n} characters', '{n} Zeichen', '{n} caractères', '{n} caracteres'],
  countOf: [
    '{n} of {limit} characters', '{n} von {limit} Zeichen', '{n} caractères sur {limit}', '{n} de {limit} caracteres',
  ],
  translation: ['Translation', 'Übersetzung', 'Traduction', 'Traducción'],
  empty: [
    'The translation appears here', 'Hier erscheint die Übersetzung', 'La traduction apparaît ici',
    'La traducción aparece aquí',
  ],
  hint: [
    'Point at a word to see where it comes from. Press it to choose another.',
    'Zeigen Sie auf ein Wort, um zu sehen, woher es kommt. Drücken Sie darauf, um ein anderes zu wählen.',
    'Pointez un mot pour voir d’où il vient. Appuyez dessus pour en choisir un autre.',
    'Señale una palabra para ver de dónde viene. Púlsela para elegir otra.',
  ],
  madeFrom: ['made from: {words}', 'entstanden aus: {words}', 'vient de : {words}', 'viene de: {words}'],
  working: ['Translating', 'Wird übersetzt', 'Traduction en cours', 'Traduciendo'],
  done: ['Translation: {text}', 'Übersetzung: {text}', 'Traduction : {text}', 'Traducción: {text}'],

  copy: ['Copy the translation', 'Übersetzung kopieren', 'Copier la traduction', 'Copiar la traducción'],
  copied: ['Copied', 'Kopiert', 'Copié', 'Copiado'],
  share: [
    'Copy a link to this text', 'Link zu diesem Text kopieren', 'Copier un lien vers ce texte',
    'Copiar un enlace a este texto',
  ],
  shared: ['Link copied', 'Link kopiert', 'Lien copié', 'Enlace copiado'],
  notCopied: [
    'The browser does not let this page copy', 'Der Browser lässt diese Seite nicht kopieren',
    'Le navigateur ne laisse pas cette page copier', 'El navegador no deja que esta página copie',
  ],
  print: ['Print', 'Drucken', 'Imprimer', 'Imprimir'],
  undo: [
    'Undo chosen words', 'Gewählte Wörter zurücknehmen', 'Annuler les mots choisis', 'Deshacer las palabras elegidas',
  ],

  choices: [
    'Other words for “{word}”', 'Andere Wörter für „{word}“', 'Autres mots pour « {word} »',
    'Otras palabras para «{word}»',
  ],
  looking: ['Looking for others', 'Andere werden gesucht', 'Recherche d’autres mots', 'Buscando otras'],
  noChoices: [
    'There are no others here', 'Hier gibt es keine anderen', 'Il n’y en a pas d’autres ici', 'No hay otras aquí',
  ],
  chosen: ['Chosen: {text}', 'Gewählt: {text}', 'Choisi : {text}', 'Elegido: {text}'],

  files: ['Documents', 'Dokumente', 'Documents', 'Documentos'],
  chooseFiles: ['Choose files', 'Dateien wählen', 'Choisir des fichiers', 'Elegir archivos'],
  dropFiles: ['or drop them here', 'oder hier ablegen', 'ou déposez-les ici', 'o suéltelos aquí'],
  fileList: ['Files', 'Dateien', 'Fichiers', 'Archivos'],
  fileWaits: ['Waiting', 'Wartet', 'En attente', 'En espera'],
  fileSends: ['Sent: {percent} %', 'Gesendet: {percent} %', 'Envoyé : {percent} %', 'Enviado: {percent} %'],
  fileWorks: ['Being translated', 'Wird übersetzt', 'Traduction en cours', 'Se está traduciendo'],
  fileDone: ['Translated', 'Übersetzt', 'Traduit', 'Traducido'],
  fileStopped: ['Stopped', 'Abgebrochen', 'Arrêté', 'Detenido'],
  fileSave: ['Save {name}', '{name} speichern', 'Enregistrer {name}', 'Guardar {name}'],
  fileStop: ['Stop {name}', '{name} abbrechen', 'Arrêter {name}', 'Detener {name}'],
  fileRemove: ['Remove {name}', '{name} entfernen', 'Retirer {name}', 'Quitar {name}'],
  fileAgain: ['Try {name} again', '{name} erneut versuchen', 'Réessayer {name}', 'Reintentar {name}'],
  fileKind: [
    'This kind of file is not translated here', 'Diese Art von Datei wird hier nicht übersetzt',
    'Ce type de fichier n’est pas traduit ici', 'Este tipo de archivo no se traduce aquí',
  ],

  key: ['API key', 'API-Schlüssel', 'Clé d’API', 'Clave de API'],
  keyNeeded: [
    'This server asks for an API key.', 'Dieser Server verlangt einen API-Schlüssel.',
    'Ce serveur demande une clé d’API.', 'Este servidor pide una clave de API.',
  ],
  keyUse: ['Use', 'Verwenden', 'Utiliser', 'Usar'],
  noModels: [
    'This server has no models yet: its models folder is empty.',
    'Dieser Server hat noch keine Modelle: sein Modellordner ist leer.',
    'Ce serveur n’a pas encore de modèles : son dossier de modèles est vide.',
    'Este servidor aún no tiene modelos: su carpeta de modelos está vacía.',
  ],
  tooLong: [
    'The text is too long: this server takes {limit} characters.',
    'Der Text ist zu lang: dieser Server nimmt {limit} Zeichen.',
    'Le texte est trop long : ce serveur accepte {limit} caractères.',
    'El texto es demasiado largo: este servidor acepta {limit} caracteres.',
  ],
  slowDown: [
    'Too many requests. The page goes on in {seconds} s.', 'Zu viele Anfragen. Die Seite macht in {seconds} s weiter.',
    'Trop de requêtes. La page continue dans {seconds} s.', 'Demasiadas peticiones. La página sigue en {seconds} s.',
  ],
  busy: [
    'The server is busy. The page tries again in {seconds} s.',
    'Der Server ist ausgelastet. Die Seite versucht es in {seconds} s wieder.',
    'Le serveur est occupé. La page réessaie dans {seconds} s.',
    'El servidor está ocupado. La página lo intenta de nuevo en {seconds} s.',
  ],
  away: [
    'The server cannot be reached. The page tries again in {seconds} s.',
    'Der Server ist nicht erreichbar. Die Seite versucht es in {seconds} s wieder.',
    'Le serveur est injoignable. La page réessaie dans {seconds} s.',
    'No se puede llegar al servidor. La página lo intenta de nuevo en {seconds} s.',
  ],
  refused: [
    'The server says: {message}', 'Der Server meldet: {message}', 'Le serveur dit : {message}',
    'El servidor dice: {message}',
  ],
  again: ['Try now', 'Jetzt versuchen', 'Réessayer maintenant', 'Intentar ahora'],

  serverReady: ['The server is ready', 'Der Server ist bereit', 'Le serveur est prêt', 'El servidor está listo'],
  serverAway: [
    'The server cannot be reached', 'Der Server ist nicht erreichbar', 'Le serveur est injoignable',
    'No se puede llegar al servidor',
  ],
  serverBusy: [
    'The server takes no new work', 'Der Server nimmt keine neue Arbeit an',
    'Le serveur n’accepte pas de nouveau travail', 'El servidor no acepta trabajo nuevo',
  ],
  load: ['Load', 'Auslastung', 'Charge', 'Carga'],
  tokensPerSecond: ['Tokens a second', 'Tokens je Sekunde', 'Tokens par seconde', 'Tokens por segundo'],
  requestsPerMinute: ['Requests a minute', 'Anfragen je Minute', 'Requêtes par minute', 'Peticiones por minuto'],
  waiting: ['Waiting', 'Wartend', 'En attente', 'En espera'],
  running: ['In batches', 'In Stapeln', 'Dans les lots', 'En lotes'],
  occupancy: ['Texts a step', 'Texte je Schritt', 'Textes par pas', 'Textos por paso'],
  latencyHalf: [
    'Half take at most', 'Die Hälfte braucht höchstens', 'La moitié prend au plus', 'La mitad tarda como máximo',
  ],
  latencyMost: ['99 % take at most', '99 % brauchen höchstens', '99 % prennent au plus', 'El 99 % tarda como máximo'],
  chart: [
    'Tokens a second in the last {seconds} s: now {now}, at most {most}',
    'Tokens je Sekunde in den letzten {seconds} s: jetzt {now}, höchstens {most}',
    'Tokens par seconde dans les {seconds} dernières s : maintenant {now}, au plus {most}',
    'Tokens por segundo en los últimos {seconds} s: ahora {now}, como máximo {most}',
  ],
  devices: ['Devices', 'Geräte', 'Appareils', 'Dispositivos'],
  device: ['Device', 'Gerät', 'Appareil', 'Dispositivo'],
  memory: ['Memory', 'Speicher', 'Mémoire', 'Memoria'],
  models: ['Models', 'Modelle', 'Modèles', 'Modelos'],
  model: ['Model', 'Modell', 'Modèle', 'Modelo'],
  state: ['State', 'Zustand', 'État', 'Estado'],
  open: ['open', 'offen', 'ouvert', 'abierto'],
  opening: ['opening', 'wird geöffnet', 'en ouverture', 'abriéndose'],
  failed: ['failed', 'fehlgeschlagen', 'en échec', 'fallido'],
  closed: ['closed', 'geschlossen', 'fermé', 'cerrado'],
  works: ['works', 'arbeitet', 'fonctionne', 'funciona'],
  lost: ['lost', 'verloren', 'perdu', 'perdido'],
  languages: ['Languages', 'Sprachen', 'Langues', 'Idiomas'],
  none: ['none', 'keine', 'aucun', 'ninguno'],
  language: ['Language', 'Sprache', 'Langue', 'Idioma'],
  into: ['Into', 'In', 'Vers', 'A'],
};
