package main

import (
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/browser"
)

// result matches the first result of a search, as the script has made it.
var result = regexp.MustCompile(`<ol><li><a href="([^"]+)"><span class="where">(.*?)</span>`)

var tag = regexp.MustCompile(`<[^>]+>`)

// open returns a page as a browser shows it, from a file, with what is searched on it.
func open(t *testing.T, site, page, query string) string {
	t.Helper()
	return browser.DOM(t, "file://"+filepath.ToSlash(site)+"/"+page+"?q="+query)
}

// first checks the first result of the search on a page.
func first(t *testing.T, dom, to, where string) {
	t.Helper()
	match := result.FindStringSubmatch(dom)
	if match == nil {
		_, panel, _ := strings.Cut(dom, `<section id="site-results"`)
		panel, _, _ = strings.Cut(panel, "</section>")
		t.Fatalf("search for %s: no result: %s", where, panel)
	}
	match[2] = tag.ReplaceAllString(match[2], "")
	if !strings.HasPrefix(html.UnescapeString(match[1]), to) || !strings.HasPrefix(match[2], where) {
		t.Errorf("search: first is %q at %s, want %q at %s", match[2], match[1], where, to)
	}
}

// TestInABrowser opens the site without a server, follows the navigation and searches.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	browser.Find(t)
	site := filepath.Join(t.TempDir(), "docs")
	if err := run(root, site); err != nil {
		t.Fatal(err)
	}
	home := open(t, site, "index.html", "capacity+fallback")
	first(t, home, "operations.html#capacity-fallback", "Operations: Capacity fallback")
	match := regexp.MustCompile(`<nav [^>]*>(?s:.*?)<a href="([^"]+)">MachineClass</a>`).FindStringSubmatch(home)
	if match == nil {
		t.Fatalf("the navigation of the first page has no link to the page of MachineClass:\n%s", home)
	}
	class := open(t, site, match[1], "OwnerIDTaken")
	if !strings.Contains(class, `<h1 id="machineclass`) || !strings.Contains(class, `aria-current="page">MachineClass`) {
		t.Errorf("the link of the navigation does not lead to the page of MachineClass:\n%s", class)
	}
	first(t, class, up(match[1])+"troubleshooting.html#the-object", "Troubleshooting: The object")
	moved := open(t, site, "safety.html", "#outages")
	if !strings.Contains(moved, `<h1 id="operations"`) {
		t.Errorf("a page that moved does not lead to where it is now:\n%s", moved)
	}
	some := open(t, site, "index.html", "OwnerIDTaken+nosuchwordanywhere")
	if !strings.Contains(some, "Nothing has all words of") {
		t.Errorf("a search that finds one of two words does not say so:\n%s", some)
	}
	first(t, some, "troubleshooting.html#the-object", "Troubleshooting: The object")
}
