/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/languages.h"

#include <stdio.h>
#include <string.h>

typedef struct language {
  const char *code;   /* that clients use */
  const char *others; /* codes of the same language, a blank between them */
  const char *script; /* the usual one, as ISO 15924 has it, where models name several; else NULL */
  const char *name;
} language;

/* Sorted by the code. The others are those of ISO 639-2 and 639-3, and of single languages that stand for a group (arb
 * is the standard among the Arabic ones). zh, zt and pb are what Argos' models call the languages that LibreTranslate
 * tells as zh-Hans, zh-Hant and pt-BR. */
static const language languages[] = {
    {"aa", "aar", NULL, "Afar"},
    {"ab", "abk", NULL, "Abkhazian"},
    {"ace", "", "Latn", "Acehnese"},
    {"af", "afr", NULL, "Afrikaans"},
    {"ak", "aka", NULL, "Akan"},
    {"am", "amh", NULL, "Amharic"},
    {"an", "arg", NULL, "Aragonese"},
    {"ar", "ara arb", "Arab", "Arabic"},
    {"as", "asm", NULL, "Assamese"},
    {"ast", "", NULL, "Asturian"},
    {"av", "ava", NULL, "Avaric"},
    {"awa", "", NULL, "Awadhi"},
    {"ay", "aym ayr", NULL, "Aymara"},
    {"az", "aze azj", "Latn", "Azerbaijani"},
    {"azb", "", NULL, "South Azerbaijani"},
    {"ba", "bak", NULL, "Bashkir"},
    {"ban", "", NULL, "Balinese"},
    {"be", "bel", "Cyrl", "Belarusian"},
    {"bem", "", NULL, "Bemba"},
    {"bg", "bul", NULL, "Bulgarian"},
    {"bho", "", NULL, "Bhojpuri"},
    {"bi", "bis", NULL, "Bislama"},
    {"bjn", "", "Latn", "Banjar"},
    {"bm", "bam", NULL, "Bambara"},
    {"bn", "ben", NULL, "Bengali"},
    {"bo", "bod tib", NULL, "Tibetan"},
    {"br", "bre", NULL, "Breton"},
    {"bs", "bos", "Latn", "Bosnian"},
    {"bug", "", NULL, "Buginese"},
    {"ca", "cat", NULL, "Catalan"},
    {"ce", "che", NULL, "Chechen"},
    {"ceb", "", NULL, "Cebuano"},
    {"ch", "cha", NULL, "Chamorro"},
    {"cjk", "", NULL, "Chokwe"},
    {"ckb", "", NULL, "Central Kurdish"},
    {"co", "cos", NULL, "Corsican"},
    {"crh", "", "Latn", "Crimean Tatar"},
    {"cs", "ces cze", NULL, "Czech"},
    {"cv", "chv", NULL, "Chuvash"},
    {"cy", "cym wel", NULL, "Welsh"},
    {"da", "dan", NULL, "Danish"},
    {"de", "deu ger", NULL, "German"},
    {"dik", "din", NULL, "Dinka"},
    {"dv", "div", NULL, "Dhivehi"},
    {"dyu", "", NULL, "Dyula"},
    {"dz", "dzo", NULL, "Dzongkha"},
    {"ee", "ewe", NULL, "Ewe"},
    {"el", "ell gre", NULL, "Greek"},
    {"en", "eng", NULL, "English"},
    {"eo", "epo", NULL, "Esperanto"},
    {"es", "spa", NULL, "Spanish"},
    {"et", "est ekk", NULL, "Estonian"},
    {"eu", "eus baq", NULL, "Basque"},
    {"fa", "fas per pes", NULL, "Persian"},
    {"ff", "ful fuv", "Latn", "Fulah"},
    {"fi", "fin", NULL, "Finnish"},
    {"fj", "fij", NULL, "Fijian"},
    {"fo", "fao", NULL, "Faroese"},
    {"fon", "", NULL, "Fon"},
    {"fr", "fra fre", NULL, "French"},
    {"fur", "", NULL, "Friulian"},
    {"fy", "fry", NULL, "Western Frisian"},
    {"ga", "gle", NULL, "Irish"},
    {"gd", "gla", NULL, "Scottish Gaelic"},
    {"gl", "glg", NULL, "Galician"},
    {"gn", "grn gug", NULL, "Guarani"},
    {"gu", "guj", NULL, "Gujarati"},
    {"gv", "glv", NULL, "Manx"},
    {"ha", "hau", "Latn", "Hausa"},
    {"he", "heb iw", NULL, "Hebrew"},
    {"hi", "hin", "Deva", "Hindi"},
    {"hne", "", NULL, "Chhattisgarhi"},
    {"hr", "hrv", NULL, "Croatian"},
    {"ht", "hat", NULL, "Haitian"},
    {"hu", "hun", NULL, "Hungarian"},
    {"hy", "hye arm", NULL, "Armenian"},
    {"ia", "ina", NULL, "Interlingua"},
    {"id", "ind in", NULL, "Indonesian"},
    {"ie", "ile", NULL, "Interlingue"},
    {"ig", "ibo", NULL, "Igbo"},
    {"ilo", "", NULL, "Ilocano"},
    {"io", "ido", NULL, "Ido"},
    {"is", "isl ice", NULL, "Icelandic"},
    {"it", "ita", NULL, "Italian"},
    {"iu", "iku", NULL, "Inuktitut"},
    {"ja", "jpn", NULL, "Japanese"},
    {"jv", "jav jw", "Latn", "Javanese"},
    {"ka", "kat geo", NULL, "Georgian"},
    {"kab", "", NULL, "Kabyle"},
    {"kac", "", NULL, "Kachin"},
    {"kam", "", NULL, "Kamba"},
    {"kbp", "", NULL, "Kabiye"},
    {"kea", "", NULL, "Kabuverdianu"},
    {"kg", "kon", NULL, "Kongo"},
    {"ki", "kik", NULL, "Kikuyu"},
    {"kk", "kaz", "Cyrl", "Kazakh"},
    {"kl", "kal", NULL, "Greenlandic"},
    {"km", "khm", NULL, "Khmer"},
    {"kmb", "", NULL, "Kimbundu"},
    {"kn", "kan", NULL, "Kannada"},
    {"ko", "kor", NULL, "Korean"},
    {"knc", "kau kr", "Latn", "Kanuri"},
    {"ks", "kas", "Arab", "Kashmiri"},
    {"ku", "kur kmr", "Latn", "Kurdish"},
    {"kw", "cor", NULL, "Cornish"},
    {"ky", "kir", "Cyrl", "Kyrgyz"},
    {"la", "lat", NULL, "Latin"},
    {"lb", "ltz", NULL, "Luxembourgish"},
    {"lg", "lug", NULL, "Ganda"},
    {"li", "lim", NULL, "Limburgish"},
    {"lij", "", NULL, "Ligurian"},
    {"lmo", "", NULL, "Lombard"},
    {"ln", "lin", NULL, "Lingala"},
    {"lo", "lao", NULL, "Lao"},
    {"lt", "lit", NULL, "Lithuanian"},
    {"ltg", "", NULL, "Latgalian"},
    {"lua", "", NULL, "Luba-Kasai"},
    {"luo", "", NULL, "Luo"},
    {"lus", "", NULL, "Mizo"},
    {"lv", "lav lvs", NULL, "Latvian"},
    {"mag", "", NULL, "Magahi"},
    {"mai", "", NULL, "Maithili"},
    {"mg", "mlg plt", NULL, "Malagasy"},
    {"mh", "mah", NULL, "Marshallese"},
    {"mi", "mri mao", NULL, "Maori"},
    {"min", "", "Latn", "Minangkabau"},
    {"mk", "mkd mac", NULL, "Macedonian"},
    {"ml", "mal", NULL, "Malayalam"},
    {"mn", "mon khk", "Cyrl", "Mongolian"},
    {"mni", "", NULL, "Manipuri"},
    {"mos", "", NULL, "Mossi"},
    {"mr", "mar", NULL, "Marathi"},
    {"ms", "msa may zsm zlm", "Latn", "Malay"},
    {"mt", "mlt", NULL, "Maltese"},
    {"my", "mya bur", NULL, "Burmese"},
    {"na", "nau", NULL, "Nauru"},
    {"nb", "nob", NULL, "Norwegian Bokm\xc3\xa5l"},
    {"ne", "nep npi", NULL, "Nepali"},
    {"nl", "nld dut", NULL, "Dutch"},
    {"nn", "nno", NULL, "Norwegian Nynorsk"},
    {"no", "nor", NULL, "Norwegian"},
    {"nso", "", NULL, "Northern Sotho"},
    {"nus", "", NULL, "Nuer"},
    {"ny", "nya", NULL, "Nyanja"},
    {"oc", "oci", NULL, "Occitan"},
    {"om", "orm gaz", NULL, "Oromo"},
    {"or", "ori ory", NULL, "Odia"},
    {"os", "oss", NULL, "Ossetian"},
    {"pa", "pan", "Guru", "Punjabi"},
    {"pag", "", NULL, "Pangasinan"},
    {"pap", "", NULL, "Papiamento"},
    {"pl", "pol", NULL, "Polish"},
    {"prs", "", NULL, "Dari"},
    {"ps", "pus pbt", NULL, "Pashto"},
    {"pt", "por", NULL, "Portuguese"},
    {"pt-BR", "pb pob pt-br", NULL, "Portuguese (Brazil)"},
    {"qu", "que quy", NULL, "Quechua"},
    {"rm", "roh", NULL, "Romansh"},
    {"rn", "run", NULL, "Rundi"},
    {"ro", "ron rum", NULL, "Romanian"},
    {"ru", "rus", NULL, "Russian"},
    {"rw", "kin", NULL, "Kinyarwanda"},
    {"sa", "san", "Deva", "Sanskrit"},
    {"sat", "", NULL, "Santali"},
    {"sc", "srd", NULL, "Sardinian"},
    {"scn", "", NULL, "Sicilian"},
    {"sco", "", NULL, "Scots"},
    {"sd", "snd", "Arab", "Sindhi"},
    {"se", "sme", NULL, "Northern Sami"},
    {"sg", "sag", NULL, "Sango"},
    {"shn", "", NULL, "Shan"},
    {"si", "sin", NULL, "Sinhala"},
    {"sk", "slk slo", NULL, "Slovak"},
    {"sl", "slv", NULL, "Slovenian"},
    {"sm", "smo", NULL, "Samoan"},
    {"sn", "sna", NULL, "Shona"},
    {"so", "som", NULL, "Somali"},
    {"sq", "sqi alb als", NULL, "Albanian"},
    {"sr", "srp", "Cyrl", "Serbian"},
    {"ss", "ssw", NULL, "Swati"},
    {"st", "sot", NULL, "Southern Sotho"},
    {"su", "sun", NULL, "Sundanese"},
    {"sv", "swe", NULL, "Swedish"},
    {"sw", "swa swh", NULL, "Swahili"},
    {"szl", "", NULL, "Silesian"},
    {"ta", "tam", NULL, "Tamil"},
    {"taq", "", "Latn", "Tamasheq"},
    {"te", "tel", NULL, "Telugu"},
    {"tg", "tgk", "Cyrl", "Tajik"},
    {"th", "tha", NULL, "Thai"},
    {"ti", "tir", NULL, "Tigrinya"},
    {"tk", "tuk", "Latn", "Turkmen"},
    {"tl", "tgl fil", NULL, "Tagalog"},
    {"tn", "tsn", NULL, "Tswana"},
    {"to", "ton", NULL, "Tonga"},
    {"tpi", "", NULL, "Tok Pisin"},
    {"tr", "tur", NULL, "Turkish"},
    {"ts", "tso", NULL, "Tsonga"},
    {"tt", "tat", "Cyrl", "Tatar"},
    {"tum", "", NULL, "Tumbuka"},
    {"tw", "twi", NULL, "Twi"},
    {"ty", "tah", NULL, "Tahitian"},
    {"tzm", "", NULL, "Central Atlas Tamazight"},
    {"ug", "uig", "Arab", "Uyghur"},
    {"uk", "ukr", NULL, "Ukrainian"},
    {"umb", "", NULL, "Umbundu"},
    {"ur", "urd", "Arab", "Urdu"},
    {"uz", "uzb uzn", "Latn", "Uzbek"},
    {"ve", "ven", NULL, "Venda"},
    {"vec", "", NULL, "Venetian"},
    {"vi", "vie", NULL, "Vietnamese"},
    {"vo", "vol", NULL, "Volap\xc3\xbck"},
    {"wa", "wln", NULL, "Walloon"},
    {"war", "", NULL, "Waray"},
    {"wo", "wol", NULL, "Wolof"},
    {"xh", "xho", NULL, "Xhosa"},
    {"yi", "yid ydd", NULL, "Yiddish"},
    {"yo", "yor", NULL, "Yoruba"},
    {"yue", "", NULL, "Cantonese"},
    {"za", "zha", NULL, "Zhuang"},
    {"zh-Hans", "zh zho chi cmn zh-cn zh-hans", "Hans", "Chinese"},
    {"zh-Hant", "zt zh-tw zh-hk zh-hant", NULL, "Chinese (traditional)"},
    {"zu", "zul", NULL, "Zulu"},
};
enum { N_LANGUAGES = sizeof languages / sizeof languages[0] };

static int is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int is_listed(const char *others, const char *code, size_t size)
{
  for (const char *at = others; *at;) {
    size_t word = strcspn(at, " ");
    if (word == size && strncmp(at, code, size) == 0) {
      return 1;
    }
    at += word + (at[word] == ' ');
  }
  return 0;
}

static const language *find(const char *code, size_t size)
{
  for (int i = 0; i < N_LANGUAGES; i++) {
    const language *one = &languages[i];
    if ((strlen(one->code) == size && strncmp(one->code, code, size) == 0) || is_listed(one->others, code, size)) {
      return one;
    }
  }
  return NULL;
}

/* The script in "-Cyrl", as ISO 15924 writes it; "" for a region ("-XX") and other words. */
static void read_script(const char *word, size_t size, char script[5])
{
  script[0] = '\0';
  if (size != 4) {
    return;
  }
  for (size_t i = 0; i < 4; i++) {
    if (!is_letter(word[i])) {
      script[0] = '\0';
      return;
    }
    script[i] = (char)(i == 0 ? lower(word[i]) - 'a' + 'A' : lower(word[i]));
  }
  script[4] = '\0';
}

int language_code(const char *name, char code[LANGUAGE_ROOM])
{
  char clean[LANGUAGE_ROOM];
  size_t size = 0;
  for (; name[size]; size++) {
    char c = name[size] == '_' ? '-' : lower(name[size]);
    if (size + 1 == sizeof clean || !(is_letter(c) || (c >= '0' && c <= '9') || c == '-')) {
      return 0;
    }
    clean[size] = c;
  }
  clean[size] = '\0';
  if (size == 0 || !is_letter(clean[0])) {
    return 0;
  }
  size_t first = strcspn(clean, "-");
  const language *found = find(clean, size);
  if (found) {
    strcpy(code, found->code);
    return 1;
  }
  found = find(clean, first);
  char script[5] = "";
  if (clean[first] == '-') {
    const char *word = clean + first + 1;
    read_script(word, strcspn(word, "-"), script);
  }
  if (found && strcmp(found->code, "zh-Hans") == 0 && strcmp(script, "Hant") == 0) {
    strcpy(code, "zh-Hant");
    return 1;
  }
  const char *base = found ? found->code : NULL;
  int is_usual = !script[0] || !found || !found->script || strcmp(script, found->script) == 0;
  if (base && is_usual) {
    strcpy(code, base);
  } else if (base) {
    snprintf(code, LANGUAGE_ROOM, "%.*s-%s", (int)strcspn(base, "-"), base, script);
  } else if (script[0] || (clean[first] == '-' && strlen(clean + first) == 3)) { /* fur_Latn, xx_XX */
    snprintf(code, LANGUAGE_ROOM, "%.*s", (int)first, clean);
  } else {
    strcpy(code, clean);
  }
  return 1;
}

void language_name(const char *code, char *name, size_t size)
{
  size_t first = strcspn(code, "-");
  const language *found = find(code, strlen(code));
  const language *base = found ? found : find(code, first);
  if (!found && base && code[first] == '-') {
    snprintf(name, size, "%s (%s)", base->name, code + first + 1);
  } else {
    snprintf(name, size, "%s", found ? found->name : code);
  }
}
