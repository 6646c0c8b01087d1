#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The formats of files: text, subtitles, catalogues, Markdown, office documents, OpenDocument, books; files that are
broken or too large; and the program with the demo's model."""
import io
import os
import re
import struct
import subprocess
import xml.etree.ElementTree as tree
import zipfile

from harness import check, fake, finish, starve, work


def expect(name, text, wanted, mode="upper", **more):
    found = fake(mode, name, text, **more)
    check(f"{name} {mode}", found == wanted.encode(), found.decode(), wanted)
    same = fake("identity", name, text)
    check(f"{name}: identity", same == text.encode() or name.endswith(".po"), same)


def refuse(name, data, *words, **more):
    message = fake("upper", name, data, code=3, **more)
    for word in words:
        check(f"{name}: the message says {word}", word in message, message)


# ---- text ----
expect("a.txt", "\ufeffOne two.\r\n\r\n  three\t four \r\n12.5\nhttp://a.b/c\nlast",
    "\ufeffONE TWO.\r\n\r\n  THREE\t FOUR \r\n"
       "12.5\nhttp://a.b/c\nLAST")
expect("A.TXT", "one", "ONE")
expect("a.txt", "", "")
refuse("a.doc", "x", "a.doc", ".docx")
refuse("doc", "x", "none of")

# ---- subtitles ----
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:1
{\\an8}<i>One two</i>
three four.

2
00:00:03,000 --> 00:00:04,000
- Are you?
- I <b>am</b>.

3
00:00:05,000 --> 00:00:06,000
1 < 2 & so on

"""
expect("a.srt", SRT, SRT.replace("One two", "ONE TWO").replace("three four", "THREE FOUR").replace("Are you",
    "ARE YOU")
       .replace("I <b>am", "I <b>AM").replace("so on", "SO ON"))
expect("a.srt", SRT.replace("\n", "\r\n"), SRT.replace("\n", "\r\n").replace("One two",
    "ONE TWO").replace("three four", "THREE FOUR")
       .replace("Are you", "ARE YOU").replace("I <b>am", "I <b>AM").replace("so on", "SO ON"))
VTT = """WEBVTT - title

NOTE one
two

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start position:10%
<v Ann Lee>One <c.red>two</c> &amp; <00:01.500>three

00:03.000 --> 00:04.000
four
"""
expect("a.vtt", VTT, VTT.replace("One", "ONE").replace(">two<", ">TWO<").replace("three", "THREE").replace("four",
    "FOUR"))
long = fake("table", "a.srt", "1\n00:00:01,000 --> 00:00:02,000\nshort one\nhere\n",
            table="short one here\t" + "word " * 20 + "end\t0-0\n").decode()
lines = long.split("\n")[2:-1]
check("long cues are wrapped", len(lines) >= 3 and max(map(len, lines)) <= 42, long)
refuse("a.srt", "1\n00:00:01 -> 00:00:02\nx\n", "line 2", "times")
refuse("a.srt", "1\nx --> y\nx\n", "line 2", "00:00:01,000")
refuse("a.srt", "", "no cues")
refuse("a.vtt", "1\n\n00:01.000 --> 00:02.000\nx\n", "line 1", "WEBVTT")

# ---- catalogues ----
PO = r'''# Comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

#: a.c:1
#, fuzzy, c-format
msgctxt "menu"
msgid "Open %s in %(name)s"
msgstr "old"

msgid "kept"
msgstr "stays"

#, fuzzy
msgid "<b>one</b> \"two\"\ttab {0}"
msgstr "x"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid ""
"first line\n"
"second\n"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
'''
WANTED = PO.replace("#, fuzzy, c-format", "#, c-format").replace("#, fuzzy\n", "").replace(
    '"old"', '"OPEN %s IN %(name)s"').replace('"x"', r'"<b>ONE</b> \"TWO\"\tTAB {0}"').replace('[0] ""',
        '[0] "%d FILE"').replace(
    '[1] ""', '[1] "%d FILES"').replace('"second\\n"\nmsgstr ""',
        '"second\\n"\nmsgstr ""\n"FIRST LINE\\n"\n"SECOND\\n"')
expect("a.po", PO, WANTED.replace(r'\"TWO\"\tTAB', r'\"TWO\" TAB'))
same = fake("identity", "a.po", fake("identity", "a.po", PO))
check("a translated catalogue stays", same == fake("upper", "a.po", same))
for number in range(10):
    found = fake("reverse", "a.po", 'msgid "%1 of %(n)d, {x} ${y} 50% off at %5.2f%%"\nmsgstr ""\n').decode()
    check("placeholders stay", all(p in found.split("msgstr")[1] for p in ["%1", "%(n)d", "{x}", "${y}", "%5.2f",
        "%%"]), found)
refuse("a.po", 'msgid "x\nmsgstr ""\n', "line 1", "quotes")
refuse("a.po", 'msgstr "x"\n', "line 1", "msgid")
refuse("a.po", 'foo "x"\n', "line 1")
refuse("a.po", "", "no msgid")

# ---- Markdown ----
MD = """---
title: one
---
# One *two* #

Some **bold [text](http://a.b/c "t")** and `code x`,
on two lines \\* here ![pic](a.png).

1. item one
   - [x] inner `y`
2. item <kbd>K</kbd> two

> quote one
> more

Head | Two
:--|--
cell one | `x` \\| y

```c
int one;
```

    indented code

<div align="center">
  <p>html <b>one</b></p>
</div>

Title
=====
hard  
break[^1] [ref][r] <http://x.y>

[r]: http://one.two "Title"
[^1]: note one
"""
WANTED = """---
title: one
---
# ONE *TWO* #

SOME **BOLD [TEXT](http://a.b/c "t")** AND `code x`,
ON TWO LINES \\* HERE ![pic](a.png).

1. ITEM ONE
   - [x] INNER `y`
2. ITEM <kbd>K</kbd> TWO

> QUOTE ONE
> MORE

HEAD | TWO
:--|--
CELL ONE | `x` \\| Y

```c
int one;
```

    indented code

<div align="center">
  <p>HTML <b>ONE</b></p>
</div>

TITLE
=====
HARD  
BREAK[^1] [REF][r] <http://x.y>

[r]: http://one.two "Title"
[^1]: NOTE ONE
"""
expect("a.md", MD, WANTED)
expect("a.md", "a_b_c * x * 2 ** y `z", "A_B_C * X * 2 ** Y `Z")


# ---- archives ----
def packed(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return out.getvalue()


def unpacked(data):
    archive = zipfile.ZipFile(io.BytesIO(data))
    check("the archive is whole", archive.testzip() is None)
    return {info.filename: archive.read(info) for info in archive.infolist()}


def same_tree(a, b):
    return tree.canonicalize(a.decode()) == tree.canonicalize(b.decode())


def convert(name, entries, part, mode="upper", **more):
    """The part of the result, and that all other entries are as they were."""
    data = packed(entries)
    check(f"{name}: identity", fake("identity", name, data) == data)
    found = unpacked(fake(mode, name, data, **more))
    check(f"{name}: entries", list(found) == list(entries))
    for entry, bytes_ in found.items():
        wanted = entries[entry] if isinstance(entries[entry], bytes) else entries[entry].encode()
        check(f"{name}: {entry} stays", entry == part or bytes_ == wanted, bytes_)
    return found[part]


W = ('xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="urn:r" '
     'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"')


def docx(body):
    return {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Override '
                               'PartName="/word/document.xml" '
                                   'ContentType="application/vnd.openxmlformats-officedocument.'
                               'wordprocessingml.document.main+xml"/></Types>',
        "word/document.xml": f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<w:document {W}>'
            f'<w:body>{body}</w:body></w:document>',
        "word/media/a.bin": b"\x00\x01" * 50,
    }


def run(text, properties=""):
    rpr = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{rpr}<w:t xml:space="preserve">{text}</w:t></w:r>'


def word(body, wanted, mode="upper", **more):
    found = convert("a.docx", docx(body), "word/document.xml", mode, **more)
    wanted = f"<w:document {W}><w:body>{wanted}</w:body></w:document>".encode()
    flat = [re.sub(r' xml:space="preserve"', "", tree.canonicalize(x.decode())) for x in (found, wanted)]
    check(f"docx {mode}: {body}", flat[0] == flat[1], *flat)


B, I = "<w:b/>", "<w:i/>"
car = {"mode": "table", "table": "a red car\tune voiture rouge\t0-0 1-2 2-1\n"}
word(f"<w:p><w:pPr><w:jc/></w:pPr>{run('one')}</w:p>", f"<w:p><w:pPr><w:jc/></w:pPr>{run('ONE')}</w:p>")
word(f"<w:p>{run('a ')}{run('red', B)}{run(' car')}</w:p>", f"<w:p>{run('une voiture ')}{run('rouge', B)}</w:p>",
    **car)
word(f"<w:p>{run('a r')}{run('ed car')}</w:p>", f"<w:p>{run('une voiture rouge')}</w:p>", **car)
word(f"<w:p>{run('a ')}{run('red', B)}{run(' car', I)}</w:p>",
    f"<w:p>{run('une ')}{run('voiture ', I)}{run('rouge', B)}</w:p>", **car)
LINK = '<w:hyperlink r:id="x">{}</w:hyperlink>'
word(f"<w:p>{run('a ')}{LINK.format(run('red', B))}{run(' car')}</w:p>",
     f"<w:p>{run('une voiture ')}{LINK.format(run('rouge', B))}</w:p>", **car)
twice = {"mode": "table", "table": "a red car\trouge une auto noire rouge\t1-0 0-1 2-2 2-3 1-4\n"}
word(f"<w:p>{run('a ')}{LINK.format(run('red', B))}{run(' car')}</w:p>",
     f"<w:p>{LINK.format(run('rouge', B))}{run(' une auto noire rouge')}</w:p>", **twice)
word(f"<w:p>{run('one')}<w:r><w:tab/></w:r>{run('two')}<w:r><w:br/></w:r>{run('three')}</w:p>",
     f"<w:p>{run('ONE')}<w:r><w:tab/></w:r>{run('TWO')}<w:r><w:br/></w:r>{run('THREE')}</w:p>")
NOTE = '<w:r><w:rPr><w:x/></w:rPr><w:footnoteReference w:id="1"/></w:r>'
word(f"<w:p>{run('one')}{NOTE}{run(' two')}</w:p>", f"<w:p>{run('ONE')}{NOTE}{run(' TWO')}</w:p>")
MARKS = '<w:bookmarkStart w:id="1"/>{}<w:bookmarkEnd w:id="1"/>'
word(f"<w:p>{MARKS.format(run('one'))}{run(' two')}</w:p>", f"<w:p>{MARKS.format(run('ONE'))}{run(' TWO')}</w:p>")


def field(code, text):
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    return (f"{mark.format('begin')}<w:r><w:instrText>{code}</w:instrText></w:r>"
            f"{mark.format('separate')}{text}{mark.format('end')}")


word(f"<w:p>{run('page ')}{field('PAGE', run('7'))}{run(' of')}</w:p>",
    f"<w:p>{run('PAGE ')}{field('PAGE', run('7'))}{run(' OF')}</w:p>")
word(f"<w:p>{run('see ')}{field('HYPERLINK x', run('the page'))}{run(' now')}</w:p>",
     f"<w:p>{run('SEE ')}{field('HYPERLINK x', run('THE PAGE'))}{run(' NOW')}</w:p>")
word(f"<w:p>{run('see ')}{field('HYPERLINK x', run('page'))}{run(' now')}</w:p>",
     f"<w:p>{run('NOW ')}{field('HYPERLINK x', run('PAGE'))}{run(' SEE')}</w:p>", "reverse")
BOX = ("<mc:AlternateContent><mc:Choice><w:p>{0}</w:p></mc:Choice><mc:Fallback><w:p>{0}</w:p></mc:Fallback>"
       "</mc:AlternateContent>")
word(f"<w:p>{run('one')}<w:r>{BOX.format(run('inner'))}</w:r></w:p>",
    f"<w:p>{run('ONE')}<w:r>{BOX.format(run('INNER'))}</w:r></w:p>")
word(f"<w:p>{run('one ')}<w:del>{run('gone')}</w:del><w:ins>{run('two')}</w:ins></w:p>",
     f"<w:p>{run('ONE ')}<w:del>{run('gone')}</w:del><w:ins>{run('TWO')}</w:ins></w:p>")
word(f"<w:p>{run('one &amp; &lt;two')}</w:p><w:tbl><w:tr><w:tc><w:p>{run('cell')}</w:p></w:tc></w:tr></w:tbl>",
     f"<w:p>{run('ONE &amp; &lt;TWO')}</w:p><w:tbl><w:tr><w:tc><w:p>{run('CELL')}</w:p></w:tc></w:tr></w:tbl>")

A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="urn:p"'
TYPES = ('<Types xmlns="x"><Override PartName="/ppt/presentation.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.'
         'presentationml.presentation.main+xml"/><Override PartName="/ppt/slides/slide1.xml" '
             'ContentType="application/vnd.'
         'openxmlformats-officedocument.presentationml.slide+xml"/></Types>')
SLIDE = ('<p:sld {}><a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en"/><a:t>{}</a:t></a:r><a:br/><a:r><a:rPr b="1"/>'
    '<a:t>{}</a:t></a:r>'
         '<a:fld id="x"><a:t>3</a:t></a:fld><a:endParaRPr/></a:p></p:sld>')
pptx = {"[Content_Types].xml": TYPES, "ppt/presentation.xml": "<p:presentation xmlns:p='urn:p'/>",
        "ppt/slides/slide1.xml": SLIDE.format(A, "one two", "three ")}
found = convert("a.pptx", pptx, "ppt/slides/slide1.xml")
wanted = SLIDE.format(A, "ONE TWO", "THREE").encode()
check("pptx", same_tree(found.replace(b"THREE ", b"THREE"), wanted), found)

ODF = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:office="urn:o" xmlns:draw="urn:d"'


def odf(body):
    return {"mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:doc {ODF}>{body}</office:doc>", "META-INF/manifest.xml": "<m/>"}


def opendocument(body, wanted, mode="upper", name="a.odt", **more):
    found = convert(name, odf(body), "content.xml", mode, **more)
    check(f"odt {mode}: {body}", same_tree(found, f"<office:doc {ODF}>{wanted}</office:doc>".encode()), found, wanted)


opendocument("<text:h>one</text:h><text:p>a <text:span>red</text:span> car</text:p>",
             "<text:h>A</text:h><text:p>une voiture <text:span>rouge</text:span></text:p>".replace(">A<", ">ONE<"),
             **car)
opendocument('<text:p>one<text:tab/>two<text:line-break/>three<text:s text:c="3"/>four</text:p>',
             '<text:p>ONE<text:tab/>TWO<text:line-break/>THREE<text:s text:c="3"/>FOUR</text:p>', name="a.odp")
opendocument("<text:p>one<text:note><text:p>note</text:p></text:note> two</text:p>",
             "<text:p>ONE<text:note><text:p>NOTE</text:p></text:note> TWO</text:p>")
opendocument("<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>p <text:page-number>"
    "3</text:page-number> x</text:p>",
             "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>P <text:page-number>"
                 "3</text:page-number> X</text:p>")
opendocument("<text:p>see <draw:frame><draw:text-box><text:p>box</text:p></draw:text-box></draw:frame> "
    "<text:a>this one</text:a></text:p>",
             "<text:p>ONE THIS</text:p>".replace("ONE THIS", "<text:a>ONE THIS</text:a> <draw:frame>"
                 "<draw:text-box><text:p>BOX</text:p>"
                                                 "</draw:text-box></draw:frame> SEE"), "reverse")


def epub(page):
    return {"mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:c"><rootfiles><rootfile full-path="OEBPS/b.opf"/>'
                '</rootfiles></container>',
            "OEBPS/b.opf": '<package xmlns="urn:opf"><manifest><item id="a" href="t%20x/../one.xhtml" '
                'media-type="application/xhtml+xml"/>'
                           '<item href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest></package>',
            "OEBPS/toc.ncx": "<ncx><text>one</text></ncx>", "OEBPS/one.xhtml": page, "OEBPS/two.xhtml": "<p>two</p>"}


PAGE = ('<?xml version="1.0"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title>'
    'one</title></head>'
        '<body><p epub:type="x">one <b>two</b><br/>&#233;t&#233;</p><script src="x"/></body></html>')
found = convert("a.epub", epub(PAGE), "OEBPS/one.xhtml")
check("epub", found.decode() == PAGE.replace(">one", ">ONE").replace(">two", ">TWO").replace("t&#233;", "T&#233;"),
    found)
data = fake("upper", "a.epub", packed(epub(PAGE)))
check("the mimetype is first, stored, without extra fields", data[30:58] == b"mimetypeapplication/epub+zip"
      and data[8:10] == b"\0\0" and struct.unpack("<H", data[28:30])[0] == 0, data[:60])

# ---- what is refused ----
GOOD = packed(docx(f"<w:p>{run('one two')}</w:p>"))
for size in [0, 1, 4, 30, len(GOOD) // 3, len(GOOD) // 2, len(GOOD) - 30, len(GOOD) - 1]:
    refuse("a.docx", GOOD[:size], "a.docx")
refuse("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600, "encrypted")
refuse("a.docx", b"<html>" * 10, "zip archive")
refuse("a.docx", packed(odf("<text:p>x</text:p>")), "[Content_Types].xml")
refuse("a.odt", GOOD, "mimetype")
refuse("a.pptx", GOOD, "presentation")
refuse("a.epub", GOOD, "container.xml")
refuse("a.docx", packed({**docx(""), "word/document.xml": "<w:document><w:p>"}), "word/document.xml", "line 1")
broken = bytearray(GOOD)
at = GOOD.index(b"word/document.xml") + 60
broken[at:at + 20] = bytes(20)
refuse("a.docx", bytes(broken), "word/document.xml")
encrypted = bytearray(GOOD)
for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
    for found in re.finditer(re.escape(mark), GOOD):
        encrypted[found.start() + offset] |= 1
refuse("a.docx", bytes(encrypted), "encrypted")
refuse("a.odt", packed({**odf("<text:p>x</text:p>"), "META-INF/manifest.xml": "<manifest:encryption-data/>"}),
    "encrypted")
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
refuse("a.docx", packed({**docx(""), "word/document.xml": LAUGHS + f"<w:document {W}><w:p>&b;</w:p></w:document>"}),
    "entities")
wide = (LAUGHS + f"<w:document {W}><w:p>&b;</w:p></w:document>").encode("utf-16")
refuse("a.docx", packed({**docx(""), "word/document.xml": wide}), "entities")
refuse("a.epub", packed(epub(LAUGHS + "<p>&b;</p>")), "entities")
refuse("a.docx", packed({**docx(""), "word/document.xml": f"<w:document {W}>" + "<w:p>" * 300 + "</w:p>" * 300}),
    "word/document.xml")
refuse("a.docx", packed({**docx(""), "bomb": bytes(40 << 20)}), "packed 1 to")
refuse("a.docx", packed({**docx(""), **{f"x{i}": b"" for i in range(10001)}}), "10004 entries")
claims = bytearray(packed({**docx(""), "bomb": bytes(1000)}))
for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
    at = bytes(claims).rindex(mark)
    claims[at + offset:at + offset + 4] = struct.pack("<I", 300 << 20)
refuse("a.docx", bytes(claims), "limit")

# ---- memory ----
starve("a.docx", packed(docx(f"<w:p>{run('a ')}{LINK.format(run('red', B))}<w:r><w:br/></w:r>{run(' car')}</w:p>")))
starve("a.odt", packed(odf("<text:p>a <text:span>red</text:span> car</text:p>")))
starve("a.epub", packed(epub(PAGE)))
starve("a.md", MD.encode(), 7)
starve("a.po", PO.encode(), 5)
starve("a.srt", SRT.encode(), 3)
starve("a.txt", b"one\ntwo three\n")

# ---- the program ----
MODEL = os.path.join(os.environ["SOURCE_ROOT"], "tools", "demo-model")
TESSERA = os.environ["TESSERA"]


def program(*arguments, code=0):
    result = subprocess.run([TESSERA, "document", "--model", MODEL, "--device", "cpu", *arguments],
        capture_output=True,
                            timeout=200)
    check(f"document {arguments}: exit code {result.returncode}", result.returncode == code, result.stderr.decode())
    return result


def path(name, data):
    name = os.path.join(work.name, name)
    with open(name, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())
    return name


out = os.path.join(work.name, "out")
program(path("a.html", "<p>I have a <b>red</b> car.</p>"), out)
check("the demo's model", open(out, encoding="utf-8").read() == "<p>J'ai une voiture <b>rouge</b>.</p>",
    open(out).read())
program(path("a.docx", packed(docx(f"<w:p>{run('I have a ')}{run('red', B)}{run(' car.')}</w:p>"))), out)
text = unpacked(open(out, "rb").read())["word/document.xml"].decode()
check("the demo's model, docx", re.findall(r"<w:b/></w:rPr><w:t[^>]*>([^<]*)", text) == ["rouge"], text)
found = program("--format", "txt", path("plain", "I have a red car."), "-").stdout.decode()
check("standard output", found == "J'ai une voiture rouge.", found)
os.remove(out)
message = program(path("a.docx", b"PK"), out, code=3).stderr.decode()
check("a file that is refused", "a.docx: expected a zip archive" in message and not os.path.exists(out), message)
program(os.path.join(work.name, "missing.txt"), out, code=3)
program(path("b.txt", "x"), code=2)
for arguments, told in [((path("b.html", "<p>x</p>"), os.path.join(work.name, "b.docx")), "would hold html"),
                        (("-", out), "standard input needs --format"),
                        (("--format", "doc", "-", out), "--format: 'doc' is no kind of file")]:
    message = program(*arguments, code=2).stderr.decode()
    check(f"{arguments}: a usage that is refused", told in message and not os.path.exists(out), message)
nowhere = os.path.join(work.name, "nowhere", "b.html")
message = program(path("b.html", "<p>x</p>"), nowhere, code=3).stderr.decode()
check("a folder that is not there", f"{nowhere}: cannot be written: No such file" in message, message)
program("--format", "html", path("c", "<p>x</p>"), os.path.join(work.name, "c.HTM"))
finish()
