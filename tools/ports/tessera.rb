# SPDX-License-Identifier: Apache-2.0
class Tessera < Formula
  desc "Runs, trains and checks encoder-decoder Transformers on any GPU with Vulkan"
  homepage "@HOMEPAGE@"
  url "@URL@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "glslang" => :build
  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => [:build, :test]
  depends_on "python@3.13" => :build
  depends_on "vulkan-headers" => :build
  depends_on "vulkan-volk" => :build
  depends_on "cairo"
  depends_on "jansson"
  depends_on "libxml2"
  depends_on "libyaml"
  depends_on "libzip"
  depends_on :linux
  depends_on "pango"
  depends_on "sentencepiece"
  depends_on "utf8proc"
  depends_on "vulkan-loader"
  depends_on "zlib-ng-compat"
  depends_on "zstd"

  def install
    # The server needs cld2, which Homebrew does not have.
    system "meson", "setup", "build", "-Dtests=false", "-Dvulkan=enabled", "-Ddocuments=enabled", "-Dpng=enabled",
           "-Dzstd=enabled", "-Dserve=disabled", "-Daudio=disabled", "-Dlibav=disabled", "-Dmpi=disabled",
           *std_meson_args
    system "meson", "compile", "-C", "build", "--verbose"
    system "meson", "install", "-C", "build"
    pkgshare.install "examples", "tools/demo-model"
  end

  test do
    model = pkgshare/"demo-model"
    %w[cpu reference].each do |device|
      translated = shell_output("#{bin}/tessera translate --model #{model} --device #{device} #{model}/sample.en")
      assert_equal (model/"sample.fr").read, translated
    end
    (testpath/"page.html").write "<p>Hello <b>world</b>.</p>\n"
    system bin/"tessera", "document", "--model", model, "page.html", "page.fr.html"
    assert_match(%r{<b>.*</b>}, (testpath/"page.fr.html").read)
    flags = shell_output("pkgconf --cflags --libs tessera").split
    system ENV.cc, "-std=c11", pkgshare/"examples/translate.c", "-o", "translate", *flags
    assert_match "Les enfants sont dans le jardin.", shell_output("./translate #{model}")
  end
end
