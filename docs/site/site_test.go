package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"
)

const root = "../.."

// built is the site of this repository, built once for all tests.
var built = sync.OnceValues(func() (map[string][]byte, error) { return build(os.DirFS(root), groups()) })

func siteFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestEveryPageIsInTheNavigation: a page of docs that is in no group would not be in the site.
func TestEveryPageIsInTheNavigation(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"README.md": true, "CHANGELOG.md": true, "SECURITY.md": true, "CONTRIBUTING.md": true}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			want[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	places := map[string]string{}
	for _, g := range groups() {
		for _, p := range g.pages {
			if seen[p.file] {
				t.Errorf("docs/site/pages.go has %s twice", p.file)
			}
			seen[p.file] = true
			if !want[p.file] {
				t.Errorf("docs/site/pages.go has %s, which is no page", p.file)
			}
			if other := places[address(p.file)]; other != "" {
				t.Errorf("%s and %s are at the same place", p.file, other)
			}
			places[address(p.file)] = p.file
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s is in no group of docs/site/pages.go; add it", name)
		}
	}
}

// TestTwoBuildsAreEqual: nothing in the site depends on when or in which order it was built.
func TestTwoBuildsAreEqual(t *testing.T) {
	t.Parallel()
	first := siteFiles(t)
	second, err := build(os.DirFS(root), groups())
	if err != nil || len(first) != len(second) {
		t.Fatalf("%d files (%v), want %d as before", len(second), err, len(first))
	}
	for name, text := range first {
		if !bytes.Equal(text, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// tags are those of pages and pictures. Another one is mostly a placeholder like <name> that is missing its
// backquotes, so that no browser shows it.
var tags = strings.Fields(`html head meta title link script body a header button form input section div nav details
	summary ul ol li main footer aside p h1 h2 h3 h4 h5 pre code table thead tbody tr th td strong em del br hr img
	blockquote span svg defs marker path rect text`)

// A parsed page has the anchors of a page, and what it refers to.
type parsed struct {
	ids    map[string]bool
	links  []string // href of a
	assets []string // href and src of everything else
}

func parse(t *testing.T, name string, text []byte) parsed {
	t.Helper()
	found := parsed{ids: map[string]bool{}}
	z := html.NewTokenizer(bytes.NewReader(text))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		if !slices.Contains(tags, token.Data) {
			t.Errorf("%s has the unknown tag <%s>", name, token.Data)
		}
		for _, a := range token.Attr {
			switch {
			case a.Key == "id" && found.ids[a.Val]:
				t.Errorf("%s has the id %s twice", name, a.Val)
			case a.Key == "id":
				found.ids[a.Val] = true
			case a.Key == "href" && token.Data == "a":
				found.links = append(found.links, a.Val)
			case a.Key == "href", a.Key == "src":
				found.assets = append(found.assets, a.Val)
			}
		}
	}
	return found
}

// TestEveryLinkLeadsSomewhere: every link and anchor of every page, and all that pages are made of.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	files := siteFiles(t)
	pages := map[string]parsed{}
	for name, text := range files {
		if path.Ext(name) == ".html" {
			pages[name] = parse(t, name, text)
		}
	}
	checked := 0
	for name, p := range pages {
		for _, link := range p.links {
			if strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(link, "#")
			if file = path.Join(path.Dir(name), file); strings.HasPrefix(link, "#") {
				file = name
			}
			if files[file] == nil {
				t.Errorf("%s links to %s, which is not there", name, link)
			} else if anchor != "" && !pages[file].ids[anchor] {
				t.Errorf("%s links to %s: there is no such anchor", name, link)
			}
		}
		for _, asset := range p.assets {
			if asset != "data:," && files[path.Join(path.Dir(name), asset)] == nil {
				t.Errorf("%s needs %s, which is not part of the site", name, asset)
			}
		}
	}
	if len(pages) < 100 || checked < 4000 {
		t.Errorf("only %d links of %d pages checked", checked, len(pages))
	}
}

// TestEverySectionIsInTheIndex: what a search finds is there, and every page can be found.
func TestEverySectionIsInTheIndex(t *testing.T) {
	t.Parallel()
	files := siteFiles(t)
	text, ok := strings.CutPrefix(string(files[indexFile]), "window.searchIndex = ")
	var entries []entry
	if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(text), ";")), &entries); err != nil || !ok {
		t.Fatalf("read the index: %v", err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		file, anchor, _ := strings.Cut(e.To, "#")
		found[file] = true
		if files[file] == nil || anchor != "" && !bytes.Contains(files[file], []byte(` id="`+anchor+`"`)) {
			t.Errorf("the index has %s, which is not there", e.To)
		}
		if strings.Contains(e.Text, "&lt;") || strings.Contains(e.Text, "<br>") {
			t.Errorf("the index has marks in the text of %s", e.To)
		}
	}
	for _, g := range groups() {
		for _, p := range g.pages {
			if !found[address(p.file)] {
				t.Errorf("no search finds %s", p.file)
			}
		}
	}
}

// TestRun: a site takes the place of the one before, and of nothing else.
func TestRun(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "site")
	for range 2 {
		if err := run(root, out); err != nil {
			t.Fatal(err)
		}
		gone := filepath.Join(out, "gone.html")
		if _, err := os.Stat(gone); !os.IsNotExist(err) {
			t.Errorf("a page of the site before is still there: %v", err)
		}
		if err := os.WriteFile(gone, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	mine := filepath.Join(other, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(root, other); err == nil || !strings.Contains(err.Error(), "name another folder") {
		t.Errorf("error %v, want that a folder with other files is left alone", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
