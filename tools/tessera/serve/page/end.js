// SPDX-License-Identifier: Apache-2.0
// The last part: what the page's HTML asks for is started when it is there.
document.addEventListener('DOMContentLoaded', () => {
  if (document.body.dataset.view === 'status') startStatus();
  else startTranslate();
});
