# frozen_string_literal: true
# SPDX-License-Identifier: Apache-2.0
#
# Stands in for Homebrew on Linux, for one formula: it has the methods that the formula calls, and a call of any other
# is an error.
#
#   ruby homebrew.rb names FORMULA    prints the packages of Debian that stand for its dependencies, see `names`
#   ruby homebrew.rb build FORMULA    unpacks what the formula names, builds, installs and tests it

require "digest"
require "fileutils"
require "open3"
require "pathname"
require "tmpdir"

PREFIX = Pathname("/home/linuxbrew/Cellar")

# What Homebrew adds to paths.
class Pathname
  def install(*sources)
    mkpath
    sources.each { |source| FileUtils.mv(source, self) }
  end
end

class << ENV
  def cc
    "cc"
  end
end

# A formula, read from its file.
class Formula
  Failed = Class.new(StandardError)

  class << self
    attr_reader :tests

    def inherited(made)
      super
      Formula.const_set(:READ, made)
    end

    %w[desc homepage url sha256 license].each do |field|
      define_method(field) { |value = nil| fields[field] ||= value }
    end

    def fields
      @fields ||= {}
    end

    # Names, and when each is there: at a build, in a test, or always.
    def dependencies
      @dependencies ||= {}
    end

    def depends_on(what)
      return if what == :linux

      name, tags = what.is_a?(Hash) ? what.first : [what, []]
      tags = Array(tags)
      unknown = tags - [:build, :test]
      raise Failed, "depends_on #{name}: #{unknown}" unless unknown.empty?

      dependencies[name] = tags
    end

    def test(&block)
      @tests = block
    end
  end

  attr_accessor :testpath

  def name
    self.class.name.downcase
  end

  def version
    self.class.url[%r{/#{name}-(\d+(?:\.\d+)+)\.tar\.xz$}, 1] || raise(Failed, "no version in #{self.class.url}")
  end

  def prefix
    PREFIX / name / version
  end

  def bin
    prefix / "bin"
  end

  def lib
    prefix / "lib"
  end

  def pkgshare
    prefix / "share" / name
  end

  def std_meson_args
    %W[--prefix=#{prefix} --libdir=#{lib} --buildtype=release --wrap-mode=nofallback]
  end

  def system(*command)
    puts "==> #{command.join(" ")}"
    Kernel.system(*command.map(&:to_s), exception: true)
  end

  def shell_output(command)
    puts "==> #{command}"
    output, status = Open3.capture2(command)
    raise Failed, "#{command}: #{status}" unless status.success?

    output
  end

  def assert_equal(expected, found)
    raise Failed, "not #{expected.inspect}: #{found.inspect}" unless expected == found
  end

  def assert_match(pattern, text)
    raise Failed, "no #{pattern.inspect} in #{text.inspect}" unless text.match?(pattern)
  end

  # Fields are as brew audit wants them.
  def audit
    made = self.class
    raise Failed, "desc has more than 80 characters" if made.desc.length > 80
    raise Failed, "no homepage" unless made.homepage.match?(%r{\A(https?|file)://})
    raise Failed, "no license" unless made.license
  end

  def source
    archive = self.class.url.delete_prefix("file://")
    sum = Digest::SHA256.file(archive).hexdigest
    raise Failed, "sha256 of #{archive} is #{sum}" unless sum == self.class.sha256

    archive
  end

  def build_and_test
    audit
    archive = source
    Dir.mktmpdir do |folder|
      Dir.chdir(folder) { system "tar", "-xf", archive, "--strip-components=1" }
      Dir.chdir(folder) { install }
    end
    # Homebrew links what it installs into folders that compiler, linker and pkgconf know.
    ENV["PKG_CONFIG_PATH"] = (lib / "pkgconfig").to_s
    ENV["LD_LIBRARY_PATH"] = lib.to_s
    Dir.mktmpdir do |folder|
      self.testpath = Pathname(folder)
      ENV["HOME"] = folder
      Dir.chdir(folder) { instance_eval(&self.class.tests) }
    end
  end
end

# Debian's packages, for names of formulae; a compiler is always there.
def packages(dependencies)
  table = File.readlines(File.join(__dir__, "names")).reject { |line| line.start_with?("#") }.map(&:split)
  %w[gcc g++ libc6-dev] + dependencies.map do |dependency|
    row = table.find { |_, formula,| formula == dependency }
    row ? row.first : raise(Formula::Failed, "#{dependency} is not in names")
  end
end

action, file = ARGV
load file
case action
when "names" then puts packages(Formula::READ.dependencies.keys)
when "build"
  Formula::READ.new.build_and_test
  puts "Homebrew's formula: built, installed and tested"
else abort "what is #{action}?"
end
