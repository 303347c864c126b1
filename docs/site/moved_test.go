package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestMoved: an address of a former page or section leads to where that is now.
func TestMoved(t *testing.T) {
	t.Parallel()
	source := exampleFiles()
	source[movedFile] = &fstest.MapFile{Data: []byte(strings.Join([]string{
		"docs/old/one.md\tdocs/two.md",
		"docs/old/one.md#start\tREADME.md#steps",
		"README.md#part\tdocs/two.md#part",
	}, "\n") + "\n")}
	files, err := build(source, exampleGroups())
	if err != nil {
		t.Fatal(err)
	}
	for reason, c := range map[string]struct{ file, want string }{
		"without scripts too":         {"old/one.html", `<meta http-equiv="refresh" content="0; url=../two.html">`},
		"a reader sees where it went": {"old/one.html", `<a href="../two.html">Two</a>`},
		"the page and its section": {
			"old/one.html", `data-moved="{&#34;&#34;:&#34;../two.html&#34;,&#34;#start&#34;:&#34;../index.html#steps&#34;}"`,
		},
		"a section of a page that stays": {"index.html", `data-moved="{&#34;#part&#34;:&#34;two.html#part&#34;}"`},
		"with what follows it":           {"index.html", `<script src="assets/moved.js"></script>`},
		"which is part of the site":      {"assets/moved.js", "location.replace"},
	} {
		if !bytes.Contains(files[c.file], []byte(c.want)) {
			t.Errorf("%s: no %s in %s:\n%s", reason, c.want, c.file, files[c.file])
		}
	}
	if bytes.Contains(files["two.html"], []byte("moved.js")) {
		t.Error("a page that nothing moved from has the script")
	}
}

func TestMovesThatLeadNowhere(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ rows, want string }{
		"no tab":                         {"docs/old.md docs/two.md\n", "a tab between them"},
		"a page that is not there":       {"docs/old.md\tdocs/three.md\n", "no such page"},
		"a heading that is not there":    {"docs/old.md\tdocs/two.md#parts\n", "no such heading"},
		"a page that is still there":     {"docs/two.md\tREADME.md\n", "still there"},
		"a section that is there":        {"docs/two.md#part\tREADME.md\n", "still there"},
		"sections of a page, not itself": {"docs/old.md#a\tdocs/two.md\n", "the page as a whole"},
	} {
		source := exampleFiles()
		source[movedFile] = &fstest.MapFile{Data: []byte(c.rows)}
		if _, err := build(source, exampleGroups()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", reason, err, c.want)
		}
	}
}

// TestMovesAreSorted: rows that are sorted are found, and merged, easily.
func TestMovesAreSorted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("moved.tsv")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range strings.Lines(string(text)) {
		if line <= last {
			t.Errorf("moved.tsv is not sorted: %q follows %q", line, last)
		}
		last = line
	}
}
