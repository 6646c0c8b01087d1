/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the inputs that a fuzz target starts from: seeds TARGET FOLDER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/compress.h"
#include "tests/support/spm_writer.h"
#include "tests/support/temporary.h"
#include "tests/support/zip_writer.h"

static const struct {
  const char *target;
  const char *text;
} texts[] = {
    {"safetensors", "{}"},
    {"safetensors",
     "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,32]},"
     "\"b\":{\"dtype\":\"F16\",\"shape\":[16],\"data_offsets\":[32,64]}}"},
    {"safetensors",
     "{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},\"e\":{\"dtype\":\"BF16\",\"shape\":[0,3],"
     "\"data_offsets\":[8,8]},\"i\":{\"dtype\":\"I32\",\"shape\":[2,7,1,1],\"data_offsets\":[8,64]}}  "},
    {"config", "{\"d_model\":512,\"scale\":0.125,\"flag\":true,\"name\":\"marian\",\"list\":[1,[2.5e3,null]]}"},
    {"config", "{\"d_model\":9223372036854775807,\"scale\":-1e308,\"flag\":NaN}"},
    {"model",
     "{\"model_type\":\"marian\",\"d_model\":512,\"encoder_layers\":6,\"decoder_layers\":6,\"encoder_attention_heads\":"
     "8,\"decoder_attention_heads\":8,\"encoder_ffn_dim\":2048,\"decoder_ffn_dim\":2048,\"vocab_size\":5001,\"max_"
     "position_embeddings\":512,\"scale_embedding\":true,\"share_encoder_decoder_embeddings\":false,\"decoder_vocab_"
     "size\":4000,\"tie_word_embeddings\":true,\"activation_function\":\"swish\",\"pad_token_id\":5000,\"eos_token_"
     "id\":[0],\"bos_token_id\":null,\"decoder_start_token_id\":5000}"},
    {"model", "{\"model_type\":\"nn_transformer\",\"pad_token_id\":0,\"bos_token_id\":1,\"eos_token_id\":2,\"unk_token_"
              "id\":3,\"decoder_start_token_id\":1,\"layer_norm_eps\":1e-05,\"scale_embedding\":true,\"position_"
              "encoding\":\"sinusoidal_interleaved\",\"is_encoder_decoder\":true,\"d_model\":32,\"nhead\":4,\"num_"
              "encoder_layers\":2,\"num_decoder_layers\":2,\"dim_feedforward\":64,\"src_vocab_size\":96,\"tgt_vocab_"
              "size\":112,\"max_position_embeddings\":64,\"activation\":\"gelu\",\"norm_first\":true,\"architectures\":"
              "[\"Seq2SeqTransformer\"],\"torch_dtype\":\"float32\"}"},
    {"model",
     "{\"model_type\":\"t5\",\"d_model\":512,\"d_kv\":64,\"d_ff\":1024,\"num_layers\":8,\"num_decoder_layers\":8,\"num_"
     "heads\":6,\"feed_forward_proj\":\"gated-gelu\",\"dense_act_fn\":\"gelu_new\",\"is_gated_act\":true,\"relative_"
     "attention_num_buckets\":32,\"relative_attention_max_distance\":128,\"layer_norm_epsilon\":1e-06,\"tie_word_"
     "embeddings\":false,\"vocab_size\":32128}"},
    {"model", "{\"model_type\":\"m2m_100\",\"d_model\":64,\"encoder_attention_heads\":4,\"pad_token_id\":1,\"eos_token_"
              "id\":[2,3],"
              "\"vocab_size\":99}"},
    {"model",
     "{\"model_type\":\"nn_transformer\",\"num_encoder_layers\":0,\"tgt_vocab_size\":9,\"activation\":\"swiglu\","
     "\"norm\":"
     "\"layernorm_std\",\"bias\":false,\"position_encoding\":\"learned\",\"share_encoder_decoder_embeddings\":true}"},
    {"model",
     "{\"model_type\":\"nn_transformer\",\"vocab_size\":9,\"position_encoding\":\"relative\",\"max_distance\":5}"},
    {"model",
     "{\"model_type\":\"whisper\",\"d_model\":64,\"encoder_attention_heads\":4,\"num_mel_bins\":80,\"max_source_"
     "positions\":150,\"max_target_positions\":64,\"vocab_size\":295,\"eos_token_id\":128}"},
    {"parameters", "\1\n{\"q\":[\"a\",\"\\u00e9\"],\"alternatives\":2,\"x\":{\"y\":null}}"},
    {"parameters", "\2source=en\nq=a%20b+c&target=fr&q"},
    {"parameters", "\3\n--x\r\nContent-Disposition: form-data; name=\"q\"; filename=\"a\"\r\n\r\nb\r\n--x--"},
    {"upload",
     "\2--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--x\r\nContent-Disposition: form-data; "
     "name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--\r\n--x--\r\n"},
    {"upload",
     "\0no part\r\n--x \t\r\nContent-Disposition: form-data; name=\"timestamp_granularities[]\"\r\n\r\nword\r\n"
     "--x\r\nContent-Disposition: form-data; name=\"timestamp_granularities[]\"\r\n\r\n\r\n--x--"},
    {"whole_numbers", "0\5\4\1\1"},
    {"whole_numbers", "1\5\2\40\1\7\3\10\1"},
    {"vocabulary", "{\"</s>\":0,\"<unk>\":1,\".\":2,\"\\u2581I\":3,\"\xE2\x96\x81the\":4,\"<pad>\":99}"},
    {"bpe", "#version: 0.2\na b\nab c\n\xC4\xA0 a\n"},
    {"bpe", "it's \xC2\xBD  cup\xFF of \xE6\x97\xA5"},
    {"tokenizer", "{\"added_tokens\":[{\"id\":0,\"content\":\"</"
                  "s>\",\"special\":true,\"lstrip\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                  "{\"type\":\"Strip\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
                  "\"}]},\"pre_tokenizer\":{\"type\":"
                  "\"Metaspace\",\"prepend_scheme\":\"first\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":["
                  "[\"</s>\",0],[\"<unk>\",0],["
                  "\"a\",-2.5],[\"b\",-1]]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                  "\"Sequence\":{}},{\"SpecialToken\":{"
                  "\"id\":\"</s>\"}}],\"special_tokens\":{\"</s>\":{\"ids\":[0]}}}}"},
    {"tokenizer", "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{"
                  "\"type\":\"Metaspace\"}]},\"model\":{"
                  "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"</"
                  "s>\":0,\"<unk>\":1,\"a\":2,\"b\":3,\"ab\":4},\"merges\":[\"a b\"]}}"},
    {"tokenizer", "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},\"model\":{\"type\":\"BPE\","
                  "\"vocab\":{\"</s>\":0,\"<unk>\":1,"
                  "\"a\":2,\"ab\":4},\"merges\":[[\"a\",\"b\"]]},\"post_processor\":{\"type\":\"RobertaProcessing\","
                  "\"cls\":[\"<s>\",0],\"sep\":[\"</s>\",0]}}"},
    {"whisper", "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"
                "\"\xC3\xA2\":2,"
                "\"\xC4\xA0\":3,\".\":4},\"merges\":[\"a "
                "b\"]},\"added_tokens\":[{\"id\":5,\"content\":\"<|endoftext|>\",\"special\":"
                "true},{\"id\":6,\"content\":\"<|startoftranscript|>\",\"special\":true},{\"id\":7,\"content\":\"<|en|>"
                "\"},{\"id\":8,"
                "\"content\":\"<|translate|>\"},{\"id\":9,\"content\":\"<|transcribe|>\"},{\"id\":10,\"content\":\"<|"
                "startofprev|>\"},"
                "{\"id\":11,\"content\":\"<|notimestamps|>\"},{\"id\":12,\"content\":\"<|0.00|>\"}]}"
                "\n\x0C\1\2\3\4\x0E\x0E\1\x0C\4\x10"},
    {"text", ">>fra<< I like</s> you. <unk>"},
    {"text", "\xEF\xBC\xA6\xEF\xAC\x81 caf\xC3\xA9 \xF0\x9F\x98\x80\xC2\xA0\xFF\n>>a<<"},
    {"yaml",
     "relative-paths: true\nmodels:\n  - model.npz\nvocabs: [a.yml, \"b.yml\"]\nbeam-size: 4\nnormalize: 0.6\n"},
    {"yaml", "\"</s>\": 0\n'it''s': 1\n? key\n: {a: ~, b: [1, -2.5e3, x]}\n"},
    {"corpus", "\xEF\xBB\xBFone line\r\n\ntab\tbed\ncaf\xE9\nlast"},
    {"corpus", "<srcset setid=\"a\"><doc docid='b'><!-- c -->\n<hl>\n<seg id=\"1\">A &lt; B &amp;#x41; &eacute;</seg>\n"
               "</hl><SEG ID=2>R&D < \n x</SEG><seg/></doc></srcset>"},
    {"corpus",
     "<?xml version=\"1.0\"?><dataset><doc id=\"1\" testsuite=\"t\"><src><seg id=\"1\">a</seg></src></doc><doc>"
     "<src><seg>b</seg></src><ref><seg>c</seg></ref><ref/><hyp><seg>d</seg></hyp></doc></dataset>"},
    {"scores",
     "The price is 1,000.50 euros, not 1.000,50.\nThe price: 3-4 &quot;a&quot; &amp;lt; <skipped>\xC2\xA0..."},
    {"normalizer",
     "Mr. O'Neil's <b>(um) can't 've been twenty-first, two and a half million dollars and 5 cents at 1,000.50 %\n"
     "\xC5\x93uvre double oh seven \xEF\xAC\x81 \xCE\x9F\xCE\xA3 e\xCC\x81\xCC\xA3 point five per cent 101st"},
    {"document_html",
     "<p class='x'>one <b>two</b><br>three &amp; four <code>x</code></p><ul><li translate=no>a<li>b</ul>"},
    {"document_html", "<b>one <i>two</b> three</i> <a>one</a><a>two</a> H<sub>2</sub>O <!-- c --> one. Two"},
    {"document_srt", "1\n00:00:01,000 --> 00:00:02,000\n- <i>one</i> two\n- three\n\n"},
    {"document_vtt", "WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.000 align:start\n<v A>one <00:01.500>two</v> three\n"},
    {"document_po", "#, fuzzy\nmsgid \"one %s two\"\nmsgid_plural \"two {0}\"\nmsgstr[0] \"\"\nmsgstr[1] \"x\"\n"},
    {"document_md",
     "# one *two*\n\n- a [b](c) `d`\n  e\n\na|b\n-|-\nc|d\n\n```\nx\n```\n> a\\\n> b\n\n<p>x <b>y</b></p>\n"},
    {"document_txt", "one two. Three\n\n  four\tfive\r\n"},
    {"document_docx",
     "<w:d "
     "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:p><w:r><w:rPr><w:b/></w:rPr><w:t>one "
     "two</w:t></w:r><w:hyperlink><w:r><w:t>three</w:t><w:br/></w:r></w:hyperlink><w:r><w:fldChar "
     "w:fldCharType='begin'/>"
     "</w:r><w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t>four</w:t></w:r><w:r><w:fldChar "
     "w:fldCharType='end'/></w:r></w:p></w:d>"},
    {"document_odt",
     "<o xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0'><text:p>one <text:span>two</text:span>"
     "<text:tab/>three<text:note><text:p>four</text:p></text:note></text:p></o>"},
    {"document_epub", "<html><body><p>one <b>two</b><br/>three</p></body></html>"},
    {"scores", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xF0\x9F\x98\x80 a-\n{b}\xFF"},
};

/* Texts in each format: one whole, one of two members or frames. */
static void write_compressed(const char *folder)
{
  static const char text[] = "one line\r\n\ncaf\xC3\xA9\nlast";
  static const char *const names[][2] = {{"gzip", "gzip-two"}, {"zstd", "zstd-two"}};
  for (int format = COMPRESSION_GZIP; format <= COMPRESSION_ZSTD; format++) {
    if (has_compression(format)) {
      size_t size;
      unsigned char *packed = compress_bytes(format, text, sizeof text - 1, &size);
      write_file(path_in(folder, names[format][0]), packed, size);
      unsigned char *both = malloc(2 * size);
      if (both) {
        memcpy(both, packed, size);
        memcpy(both + size, packed, size);
        write_file(path_in(folder, names[format][1]), both, 2 * size);
      }
      free(both);
      free(packed);
    }
  }
}

static void write_models(const char *folder)
{
  static const char *const pieces[] = {"\xE2\x96\x81", "a", "\xE2\x96\x81\x61", "d", "og", "\xE2\x96\x81runs", "."};
  spm_writer model = {0};
  spm_add_pieces(&model, pieces, sizeof pieces / sizeof pieces[0]);
  write_file(path_in(folder, "plain"), model.bytes, model.size);

  /* A table that makes "a" of "A": see test_text.c for its form. */
  uint32_t units[512];
  for (int i = 0; i < 512; i++)
    units[i] = i == 'Z' || i == 256 + 'Z' || i == (128 ^ 'Z') ? 'Y' : 'Z';
  units[0] = 256 << 10;
  units[256 + 'A'] = (uint32_t)((256 + 'A') ^ 128) << 10 | 1 << 8 | 'A';
  units[128] = 0x80000000u;
  spm_add_table(&model, sizeof units, units, 512, "a", 2);
  write_file(path_in(folder, "table"), model.bytes, model.size);

  spm_add_piece(&model, "<s>", 3, 0, SPM_CONTROL);
  spm_add_piece(&model, "do", 2, 0, SPM_USER_DEFINED);
  spm_add_piece(&model, "ru", 2, -3, SPM_UNUSED);
  write_file(path_in(folder, "kinds"), model.bytes, model.size);
  spm_finish(&model);
}

static void write_zip(const char *path, const byte_writer *pickle, const byte_writer *array, int options)
{
  static const float eight[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  zip_writer zip = {0};
  size_t size;
  if (pickle)
    zip_add(&zip, "archive/data.pkl", pickle->bytes, pickle->size, options);
  if (pickle)
    zip_add(&zip, "archive/data/0", eight, sizeof eight, options);
  if (array)
    zip_add(&zip, "w.npy", array->bytes, array->size, options);
  unsigned char *bytes = zip_finish(&zip, options & ZIP_WIDE, &size);
  write_file(path, bytes, size);
  free(bytes);
}

/* Files in every form, and what lies in them alone. */
static void write_zips(const char *folder)
{
  static const float eight[8] = {0};
  static const pickle_tensor tensors[] = {
      {"a", "FloatStorage", "0", 8, 0, 2, {2, 4}, {4, 1}},
      {"turned", "FloatStorage", "0", 8, 1, 2, {2, 3}, {1, 2}},
      {"h", "HalfStorage", "0", 16, 3, 0, {0}, {0}},
  };
  byte_writer pickle = {0};
  byte_writer array = {0};
  pickle_begin(&pickle);
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
    pickle_add(&pickle, &tensors[i]);
  pickle_end(&pickle);
  npy_write(&array, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", eight, sizeof eight);
  write_file(path_in(folder, "pickle"), pickle.bytes, pickle.size);
  write_file(path_in(folder, "array"), array.bytes, array.size);
  write_zip(path_in(folder, "torch"), &pickle, NULL, ZIP_PADDED | ZIP_STREAMED);
  write_zip(path_in(folder, "torch-wide"), &pickle, NULL, ZIP_WIDE);
  write_zip(path_in(folder, "npz"), NULL, &array, 0);
  write_zip(path_in(folder, "npz-deflated"), NULL, &array, ZIP_DEFLATED);
  free(pickle.bytes);
  free(array.bytes);
}

/* A model.bin of CTranslate2 with a matrix of whole numbers, its scales, a scalar, and an alias. */
static size_t append(unsigned char *to, size_t at, const void *bytes, size_t size)
{
  memcpy(to + at, bytes, size);
  return at + size;
}

static size_t append_number(unsigned char *to, size_t at, uint32_t number, int size)
{
  for (int i = 0; i < size; i++) {
    to[at++] = (unsigned char)(number >> (8 * i));
  }
  return at;
}

static size_t append_text(unsigned char *to, size_t at, const char *text)
{
  at = append_number(to, at, (uint32_t)strlen(text) + 1, 2);
  return append(to, at, text, strlen(text) + 1);
}

static void write_ctranslate2(const char *folder, uint32_t version)
{
  static const char matrix[6] = {1, 2, 3, -4, 5, 127}, scales[] = "\0\0\x80\x3f\0\0\0\x40";
  unsigned char file[512];
  char name[16];
  size_t n = append_number(file, 0, version, 4);
  if (version > 1) {
    n = append_text(file, n, "TransformerSpec");
    n = append_number(file, n, 7, 4);
  }
  n = append_number(file, n, 3, 4);
  n = append_text(file, n, "decoder/embeddings/weight");
  n = append_number(file, n, 2, 1);
  n = append_number(file, n, 2, 4);
  n = append_number(file, n, 3, 4);
  n = append_number(file, n, 1, 1);
  n = append_number(file, n, sizeof matrix, 4);
  n = append(file, n, matrix, sizeof matrix);
  n = append_text(file, n, "decoder/embeddings/weight_scale");
  n = append_number(file, n, 1, 1);
  n = append_number(file, n, 2, 4);
  n = append_number(file, n, version < 4 ? 4 : 0, 1);
  n = append_number(file, n, version < 4 ? 2 : 8, 4);
  n = append(file, n, scales, 8);
  n = append_text(file, n, "encoder/num_heads");
  n = append_number(file, n, 0, 1);
  n = append_number(file, n, 2, 1);
  n = append_number(file, n, version < 4 ? 1 : 2, 4);
  n = append_number(file, n, 4, 2);
  if (version > 2) {
    n = append_number(file, n, 1, 4);
    n = append_text(file, n, "decoder/projection/weight");
    n = append_text(file, n, "decoder/embeddings/weight");
  }
  snprintf(name, sizeof name, "version%u", version);
  write_file(path_in(folder, name), file, n);
}

/* A few samples of sound: `extension` bytes more in the format, whose coding then stands there. */
static void write_wav(const char *folder, const char *kind, uint32_t coding, uint32_t bits, uint32_t extension)
{
  static const char samples[48] = "\0\0\0\0\0\0\x80\x3f\x01";
  unsigned char file[256];
  size_t n = append(file, 0, kind, 4);
  n = append_number(file, n, extension > 0 ? 0xFFFFFFFFu : 100, 4);
  n = append(file, n, "WAVE", 4);
  if (extension > 0) {
    n = append(file, n, "ds64", 4);
    n = append_number(file, n, 16, 4);
    n = append(file, n, "\x80\0\0\0\0\0\0\0\x30\0\0\0\0\0\0", 16);
  }
  n = append(file, n, "fmt ", 4);
  n = append_number(file, n, 16 + extension, 4);
  n = append_number(file, n, extension > 0 ? 0xFFFEu : coding, 2);
  n = append_number(file, n, 2, 2);
  n = append_number(file, n, 16000, 4);
  n = append_number(file, n, 16000 * 2 * bits / 8, 4);
  n = append_number(file, n, 2 * bits / 8, 2);
  n = append_number(file, n, bits, 2);
  for (uint32_t i = 0; i < extension; i++) {
    n = append_number(file, n, i == 8 ? coding : 0, 1);
  }
  n = append(file, n, "data", 4);
  n = append_number(file, n, extension > 0 ? 0xFFFFFFFFu : sizeof samples, 4);
  n = append(file, n, samples, sizeof samples);
  write_file(path_in(folder, kind), file, n);
}

/* Raw samples, behind the bytes that say how they are read. */
static void write_raw(const char *folder)
{
  static const unsigned char heads[] = {1, 2, 25, 28, 73};
  unsigned char file[4000];
  uint32_t seed = 1;
  for (size_t h = 0; h < sizeof heads; h++) {
    char name[32];
    for (size_t i = 0; i < sizeof file; i++) {
      seed = seed * 1664525u + 1013904223u;
      file[i] = heads[h] % 3 == 2 && i % 4 == 3 ? 0x3D : (unsigned char)(seed >> 24); /* floats: none is large */
    }
    file[0] = heads[h];
    snprintf(name, sizeof name, "raw%zu", h);
    write_file(path_in(folder, name), file, sizeof file);
  }
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fprintf(stderr, "Usage: seeds TARGET FOLDER\n");
    return 2;
  }
  if (strcmp(argv[1], "sentencepiece") == 0)
    write_models(argv[2]);
  if (strcmp(argv[1], "zip") == 0)
    write_zips(argv[2]);
  if (strcmp(argv[1], "corpus") == 0)
    write_compressed(argv[2]);
  for (uint32_t version = 1; version <= 6 && strcmp(argv[1], "ctranslate2") == 0; version++)
    write_ctranslate2(argv[2], version);
  if (strcmp(argv[1], "wav") == 0) {
    write_wav(argv[2], "RIFF", 1, 16, 0);
    write_wav(argv[2], "RF64", 3, 32, 24);
  }
  if (strcmp(argv[1], "audio") == 0)
    write_raw(argv[2]);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char name[32];
    snprintf(name, sizeof name, "%zu", i);
    if (strcmp(argv[1], texts[i].target) == 0)
      write_text(path_in(argv[2], name), texts[i].text);
  }
  return 0;
}
