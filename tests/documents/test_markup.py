#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTML: where tags go, what stays, what is made of wrong markup; and random markup."""
import html.parser
import os
import random
import re
import sys

from harness import check, drawn, fake, finish, starve, work


def page(text, mode="upper", **more):
    return fake(mode, "x.html", text, FAKE_HTML=1, **more).decode()


def expect(text, wanted, mode="upper", **more):
    found = page(text, mode, **more)
    check(f"{mode}: {text}", found == wanted, found, wanted)


def by_table(source, target, pairs, text, wanted):
    expect(text, wanted, "table", table=f"{source}\t{target}\t{pairs}\n")


# ---- where tags go ----
car = ("a red car", "une voiture rouge", "0-0 1-2 2-1")
by_table(*car, "a <b>red</b> car", "une voiture <b>rouge</b>")
by_table(*car, "<p>a <b>red</b> car</p>", "<p>une voiture <b>rouge</b></p>")
by_table(*car, "a <b>red</b> <i>car</i>", "une <i>voiture</i> <b>rouge</b>")
by_table(*car, "a <b class='x' id=y>red</b> <i>car</i>", "une <i>voiture</i> <b class='x' id=y>rouge</b>")
by_table(*car, "<u>a <b>red</b> car</u>", "<u>une voiture <b>rouge</b></u>")
by_table(*car, "a <u><b>red</b> car</u>", "une <u>voiture <b>rouge</b></u>")
by_table(*car, "<i>a <b>red</b></i> car", "<i>une voiture <b>rouge</b></i>")
by_table(*car, "a <b> red </b> car", "une voiture <b>rouge</b>")
by_table(*car, "a <b></b>red car", "une <b></b>voiture rouge")
by_table(*car, "a red<br>car", "une voiture<br>rouge")
by_table(*car, "a <b>r</b>ed car", "une voiture <b>rouge</b>")
by_table(*car, "a <b>red <i>x</i></b> car", "A <b>RED <i>X</i></b> CAR")
# many to one, and one to many
by_table("he does not go", "er geht nicht", "0-0 3-1 2-2", "he <b>does not</b> go", "er geht <b>nicht</b>")
by_table("go away", "va t en", "0-0 1-1 1-2", "go <b>away</b>", "va <b>t en</b>")
by_table("not here", "ne va pas ici", "0-0 1-1 0-2 1-3", "<b>not</b> here", "<b>ne va pas</b> ici")
by_table("a b", "x", "1-0", "<b>a</b> <i>b</i>", "<b></b><i>x</i>")
# punctuation
by_table("Yes, the car.", "Oui, la voiture.", "0-0 1-1 2-2 3-3 4-4", "Yes, the <b>car</b>.",
    "Oui, la <b>voiture</b>.")
by_table("Yes (so).", "Oui (ainsi).", "0-0 1-1 2-2 3-3 4-4", "Yes <b>(so)</b>.", "Oui <b>(ainsi)</b>.")
expect("one <a href='?a=1&amp;b=2'>two, three</a>, four.", "ONE <a href='?a=1&amp;b=2'>TWO, THREE</a>, FOUR.")
by_table("go red.", "va rouge.", "0-0 1-1 1-2", "go <b>red</b>.", "va <b>rouge</b>.")
# words that are far apart
by_table("a red car", "rouge une auto noire rouge", "1-0 0-1 2-2 2-3 1-4", "a <b>red</b> car",
         "<b>rouge</b> une auto noire rouge")
# a model that does not align
expect("one <b>two</b> three", "ONE <b>TWO</b> THREE", "mute")
# void elements and comments
expect("one<br>two", "ONE<br>TWO")
expect("one <br/> two", "ONE <br/> TWO")
expect("one<br>\ntwo <img src=x alt='no'> three", "ONE<br>\nTWO <img src=x alt='no'> THREE")
expect("one<!-- c --> two", "ONE<!-- c --> TWO")
expect("<a id=top></a>one", "<a id=top></a>ONE")
expect("one<sup>1</sup> two", "ONE<sup>1</sup> TWO")
expect("one two", "TWO ONE", "reverse")
expect("one <b>two</b><br>three", "THREE<br><b>TWO</b> ONE", "reverse")

# ---- what stays ----
expect("<p translate='no'>one</p><p>two</p>", "<p translate='no'>one</p><p>TWO</p>")
expect("<div class='x notranslate y'><p>one</div><p>two", "<div class='x notranslate y'><p>one</div><p>TWO")
expect("<p class=notranslate>one<p>two", "<p class=notranslate>one<p>TWO")
expect("<ul><li translate=no>one<li>two</ul>", "<ul><li translate=no>one<li>TWO</ul>")
expect("get <span translate=no>Big <i>House</i></span> now", "GET <span translate=no>Big <i>House</i></span> NOW")
expect("get <span translate=no>Big House</span> now", "NOW <span translate=no>Big House</span> GET", "reverse")
expect("use <code>printf(x)</code> now", "USE <code>printf(x)</code> NOW")
expect("<script>one < two</script>x<style>p > a {}</style>", "<script>one < two</script>X<style>p > a {}</style>")
expect("<pre>one\n  two</pre><p>three</p>", "<pre>one\n  two</pre><p>THREE</p>")
expect("<textarea>one</textarea> two", "<textarea>one</textarea> TWO")
expect("x <svg><title>one</title><text>y</text></svg> two", "X <svg><title>one</title><text>y</text></svg> TWO")
expect("see https://a.example/b?c=d, now", "SEE https://a.example/b?c=d, NOW")
expect("<title>one & two</title>", "<title>ONE &amp; TWO</title>")
expect("&lt;b&gt; &copy; &eacute;t&eacute; &unknown; a&b", "&lt;B&gt; &copy; &eacute;T&eacute; &unknown; A&amp;B")
expect("<p>12.5 &nbsp; %</p>", "<p>12.5 &nbsp; %</p>")
expect("<p lang=en title='one'>\n  two\n</p >", "<p lang=en title='one'>\n  TWO\n</p >")
expect("<b>\n one</b>\n<!-- x --> ", "<b>\n ONE</b>\n<!-- x --> ")
expect("<a>one</a><a>two</a>", "<a>ONE</a><a>TWO</a>", "reverse")
expect("H<sub>2</sub>O and x<sup>2</sup>", "H<sub>2</sub>O AND X<sup>2</sup>")
expect("<a data-x='>'>one</a>", "<a data-x='>'>ONE</a>")
expect("<meta charset=iso-8859-1>\u00e9t\u00e9", "<meta charset=iso-8859-1>\u00e9T\u00e9")
by_table("summer", "\u00e9t\u00e9", "0-0", "<meta charset=latin1>summer", "<meta charset=latin1>&#233;t&#233;")

# ---- sentences ----
log = os.path.join(work.name, "log")


def texts(text, name="x.html", **more):
    open(log, "w").close()
    fake("identity", name, text, FAKE_LOG=log, **more)
    return [line for line in open(log, encoding="utf-8").read().split("\n") if line and not line.startswith("call ")]


check("sentences", texts("<p>One. Two! <b>Three?</b> Four") == ["One.", "Two!", "Three?", "Four"])
check("no sentences", texts("<p>Mr. Smith, J. R. Jones and e.g. the U.S. army, 1.5 m.") ==
      ["Mr. Smith, J. R. Jones and e.g. the U.S. army, 1.5 m."])
check("paragraphs", texts("<p>One. Two!", FAKE_PARAGRAPHS=1) == ["One. Two!"])
check("wide marks", texts("\u4f60\u597d\u3002\u518d\u89c1\u3002") == ["\u4f60\u597d\u3002", "\u518d\u89c1\u3002"])
check("identical ones once", texts("<p>One.<p>One.<p>One. Two.") == ["One.", "Two."])
check("calls", len(texts("<p>a<p>b<p>c", FAKE_BATCH=2)) == 3 and open(log).read().count("call 2\n") == 1)
expect("<p>One <b>two. Three</b> four.", "<p>ONE <b>TWO. THREE</b> FOUR.")

# ---- wrong markup ----
for wrong in ["<b>one <i>two</b> three</i>", "<b>one", "one</b>", "<b>one<p>two</b>", "<", "<>", "a < b", "</",
    "<b", "<b a='",
              "<!--", "<!-- x", "<script>", "<![CDATA[x", "&#xD800; &#0; &#99999999;", "<b/>x", "<p><b><p><b>x",
              "\x00a\x00",
              "<b " * 3000, "<b>" * 3000 + "x", "</b>" * 3000 + "x", "<b>x" * 3000, "&" * 3000, "<a x=\">" * 3000,
              "<code>" * 3000, "<!" * 3000, "a<br>" * 3000, "<b>x</b>" * 3000]:
    check("wrong markup stays with identity", page(wrong, "identity") == wrong, wrong[:60])
    found = page(wrong, "reverse")
    for tag in set(re.findall(r"</?[a-z]+>", wrong)):
        check("no tag is lost or doubled", found.count(tag) == wrong.count(tag) or tag.startswith("</"), wrong[:60],
            found[:200])
expect("<b>one <i>two</b> three</i>", "<b>ONE <i>TWO</i></b> THREE")
expect("<b>one", "<b>ONE")
expect("<b>one two", "<b>TWO ONE", "reverse")
check("no UTF-8", "byte 2 is 0xFF" in fake("upper", "x.html", b"ab\xff", code=3))
check("UTF-16", "UTF-16" in fake("upper", "x.html", "ab".encode("utf-16"), code=3))
check("an answer's error", "too late" in fake("broken", "x.html", "<p>one", code=6))


# ---- random markup ----
class Reader(html.parser.HTMLParser):
    """Tags, text, and whether they are balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.open, self.is_balanced = [], [], [], True
        self.feed(text)
        self.close()
        self.is_balanced &= not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(attrs)))
        if tag not in ("br", "img", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.is_balanced &= bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


draw = drawn(random.SystemRandom().randrange(1 << 30))
VOCABULARY = ["red", "car", "the", "house", "ca\u00f1on", "\u00e9t\u00e9", "l'eau", "3.5", "x-y", "\u4f60\u597d",
    "end.", "Big", "so,"]


def content(depth, ids):
    out = []
    for _ in range(draw.randrange(1, 5)):
        kind = draw.randrange(8)
        if kind < 4 or depth > 4:
            out.append(" ".join(draw.choice(VOCABULARY) for _ in range(draw.randrange(1, 4))))
        elif kind == 4:
            out.append(draw.choice(["<br>", "<img src='i'>", "<wbr>", "<!-- c -->", "&amp;", "&lt;", "&nbsp;"]))
        elif kind == 5:
            ids.append(len(ids))
            out.append(f"<a id='i{len(ids)}'></a>")
        else:
            tag = draw.choice(["b", "i", "em", "span", "a", "x-y", "u"])
            ids.append(len(ids))
            start = f"<{tag} id='i{len(ids)}' class=\"k &amp; {draw.randrange(9)}\">"
            out.append(f"{start}{content(depth + 1, ids)}</{tag}>")
        if draw.randrange(3):
            out.append(draw.choice([" ", "\n  ", "  "]))
    return "".join(out)


def plain(text):
    return "".join("".join(text).split())


for _ in range(int(sys.argv[1])):
    ids = []
    source = "".join(f"<p>{content(0, ids)}</p>\n" for _ in range(draw.randrange(1, 6)))
    before = Reader(source)
    check("identity", page(source, "identity") == source, source)
    for mode in ("upper", "reverse", "mute"):
        found = page(source, mode)
        after = Reader(found)
        check(mode + ": balanced", after.is_balanced, source, found)
        check(mode + ": tags", sorted(map(repr, after.tags)) == sorted(map(repr, before.tags)), source, found)
        check(mode + ": comments", found.count("<!-- c -->") == source.count("<!-- c -->"), source, found)
        if mode != "reverse":
            wanted = "".join(c.upper() if c.isascii() else c for c in plain(before.text))
            check(mode + ": text", plain(after.text) == wanted, source, found)
        else:
            check(mode + ": text", sorted(plain(after.text)) == sorted(
                "".join(c.upper() if c.isascii() else c for c in plain(before.text))), source, found)
        if mode == "upper" and not re.search(r"\w(<[^>]*>)+\w", source):  # else a word may have parts of two elements
            check("upper: order of tags", [t for t in after.tags] == [t for t in before.tags], source, found)

# ---- memory ----
SAMPLE = "<title>a</title><p>One <b>two</b><br>&copy; <code>x</code>. Three <i>four<p>Five <a>six</i>"
starve("x.html", SAMPLE.encode())
finish()
