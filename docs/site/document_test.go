package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

const example = `# A page

First ` + "`words`" + ` of \<it> &amp; more,
second line.

## Steps

| a | b |
|---|---|
| x<br>y | [two](docs/two.md#part) |

` + "```yaml\nkind: <Kind>\n```" + `

## Steps

[code](cmd/main.go), [folder](docs/adr), [other folder](cmd), [data](docs/x.json), [here](#steps), <https://example.com>
![picture](docs/x.svg)
`

func exampleFiles() fstest.MapFS {
	return fstest.MapFS{
		"README.md":      {Data: []byte(example)},
		"docs/two.md":    {Data: []byte("# Two\n\n[one](../README.md)\n\n## Part\n")},
		"docs/adr/1.md":  {Data: []byte("# 1. Decided\n\nBecause [of](../two.md).\n")},
		"docs/x.json":    {Data: []byte("{}")},
		"docs/x.svg":     {Data: []byte("<svg/>")},
		"docs/unused.js": {Data: []byte("x")},
		"cmd/main.go":    {Data: []byte("package main")},
	}
}

func exampleGroups() []group {
	return []group{
		{title: "Start", pages: []page{{"README.md", "Overview"}, {"docs/two.md", ""}}},
		{title: "Decisions", folder: "docs/adr", aside: true, pages: []page{{"docs/adr/1.md", ""}}},
	}
}

// TestBuild: what becomes of a page.
func TestBuild(t *testing.T) {
	t.Parallel()
	files, err := build(exampleFiles(), exampleGroups())
	if err != nil {
		t.Fatal(err)
	}
	for reason, c := range map[string]struct{ file, want string }{
		"a page links to another":          {"index.html", `<a href="two.html#part">two</a>`},
		"and back":                         {"two.html", `<a href="index.html">one</a>`},
		"from a folder":                    {"adr/1.html", `<a href="../two.html">of</a>`},
		"a folder with a group is a list":  {"index.html", `<a href="adr/index.html">folder</a>`},
		"which has its pages":              {"adr/index.html", `<a href="../adr/1.html">1. Decided</a><p>Because of.</p>`},
		"code is in the repository":        {"index.html", `<a href="` + repository + `/blob/main/cmd/main.go">code</a>`},
		"so are other folders":             {"index.html", `<a href="` + repository + `/tree/main/cmd">other folder</a>`},
		"data is copied":                   {"x.json", "{}"},
		"pictures are shown":               {"index.html", `<img src="x.svg" alt="picture">`},
		"anchors are GitHub's":             {"index.html", `<h2 id="steps-1">Steps`},
		"headings link to themselves":      {"index.html", `<a href="#steps-1" class="anchor"`},
		"tables may be wider than a phone": {"index.html", `<div class="scroll" tabindex="0"><table>`},
		"a break in a cell":                {"index.html", `x<br>y`},
		"code is escaped":                  {"index.html", `<code class="language-yaml">kind: &lt;Kind&gt;`},
		"the page is marked":               {"two.html", `<a href="two.html" aria-current="page">Two</a>`},
		"the group of the page is open":    {"two.html", "<details open>\n<summary>Start"},
		"others are closed":                {"two.html", "<details>\n<summary>Decisions"},
		"the next page":                    {"two.html", `<a rel="next" href="adr/1.html">1. Decided →</a>`},
		"the index is plain text":          {indexFile, `"text":"A page First words of \u003cit\u003e \u0026 more, second`},
		"a section in the index":           {indexFile, `"to":"index.html#steps","title":"Overview","heading":"Steps"`},
		"decisions come later":             {indexFile, `"group":"Decisions","text":"Because of.","aside":true`},
	} {
		if !strings.Contains(string(files[c.file]), c.want) {
			t.Errorf("%s: no %s in %s:\n%s", reason, c.want, c.file, files[c.file])
		}
	}
	if files["unused.js"] != nil {
		t.Error("a file that no page links to is copied")
	}
}

// TestBuildRefuses: a page that cannot be shown as it is meant fails the build.
func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ text, want string }{
		"a link to nothing":       {"# A\n\n[x](docs/gone.md)", `follow the link "docs/gone.md"`},
		"a page without a place":  {"# A\n\n[x](docs/new.md)", "docs/new.md is in no group of docs/site/pages.go; add it"},
		"a page without a name":   {"no heading", "begin it with a line # Title"},
		"a diagram of a new kind": {"# A\n\n```mermaid\npie\n```", "only flowcharts are known"},
	} {
		files := exampleFiles()
		files["README.md"] = &fstest.MapFile{Data: []byte(c.text)}
		files["docs/new.md"] = &fstest.MapFile{Data: []byte("# New")}
		if _, err := build(files, exampleGroups()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", reason, err, c.want)
		}
	}
}

// TestFlowchart: what is in the text is in the picture.
func TestFlowchart(t *testing.T) {
	t.Parallel()
	f, err := parseFlowchart("flowchart LR\nsubgraph g[\"A group\"]\n a[One] --> b[\"Two & 2\"]\nend\nb --> c[/Three/]\n" +
		"d -. to .-> b\nd -.-> c")
	if err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for _, n := range f.nodes {
		ranks = append(ranks, n.rank)
	}
	if len(f.nodes) != 4 || ranks[0] != 0 || ranks[1] != 1 || ranks[2] != 2 || ranks[3] != 0 {
		t.Errorf("rows %v of a, b, c, d: want each below what leads to it, and d above b", ranks)
	}
	picture := f.draw()
	for _, want := range []string{">One<", ">Two &amp; 2<", ">Three<", ">d<", ">A group<", ">to<"} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s in %s", want, picture)
		}
	}
	if n := strings.Count(picture, "marker-end"); n != 4 {
		t.Errorf("%d arrows, want 4", n)
	}
	for reason, text := range map[string]string{
		"a circle": "flowchart LR\na --> b --> a", "another arrow": "flowchart LR\na ==> b", "no node": "flowchart LR\n--> b",
	} {
		if _, err := parseFlowchart(text); err == nil {
			t.Errorf("%s: no error", reason)
		}
	}
}
