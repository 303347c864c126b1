package main

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	htmlrenderer "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A document is a page that has been read.
type document struct {
	title    string // its first heading
	summary  string // its first paragraph of text
	sections []section
	body     template.HTML
}

// A section is what stands below a heading.
type section struct {
	heading string
	id      string
	level   int
	text    strings.Builder
}

// markdown is GitHub's, as that is where most readers see the pages. Raw HTML is let through: all of it is ours.
type markdown struct {
	parser   parser.Parser
	renderer renderer.Renderer
}

func newMarkdown() markdown {
	m := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(
		htmlrenderer.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(diagrams{}, 100))))
	return markdown{m.Parser(), m.Renderer()}
}

// read makes a document of a page; resolve maps what its links and images name.
func (m markdown) read(source []byte, resolve func(string) (string, error)) (*document, error) {
	root := m.parser.Parse(text.NewReader(source))
	d := &document{}
	d.divide(root, source)
	if d.title == "" {
		return nil, fmt.Errorf("it has no heading: begin it with a line # Title")
	}
	if err := relink(root, resolve); err != nil {
		return nil, err
	}
	linkHeadings(root)
	var out bytes.Buffer
	if err := m.renderer.Render(&out, source, root); err != nil {
		return nil, err
	}
	//nolint:gosec // the pages are those of the repository
	d.body = template.HTML(scrolling.Replace(out.String()))
	return d, nil
}

// scrolling lets tables be wider than the screen. In code, these tags are escaped.
var scrolling = strings.NewReplacer(
	"<table>", `<div class="scroll" tabindex="0"><table>`, "</table>", "</table></div>")

// divide finds the sections of a page, and gives their headings ids.
func (d *document) divide(root ast.Node, source []byte) {
	seen := map[string]int{}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		line := strings.Join(strings.Fields(plain(n, source)), " ")
		if h, ok := n.(*ast.Heading); ok {
			id := slug(line, seen)
			h.SetAttributeString("id", []byte(id))
			if d.title == "" {
				d.title = line
			}
			d.sections = append(d.sections, section{heading: line, id: id, level: h.Level})
			continue
		}
		if _, ok := n.(*ast.Paragraph); ok && d.summary == "" && !aspect.MatchString(line) {
			d.summary = line
		}
		if len(d.sections) > 0 && line != "" {
			s := &d.sections[len(d.sections)-1]
			s.text.WriteString(line + " ")
		}
	}
}

// aspect matches a line of runbooks and decisions that does not say what they are about.
var aspect = regexp.MustCompile(`^(Severity|Status): `)

var notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// slug is the anchor of a heading, as GitHub makes it.
func slug(heading string, seen map[string]int) string {
	id := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
	n := seen[id]
	seen[id]++
	if n > 0 {
		return id + "-" + strconv.Itoa(n)
	}
	return id
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == ast.KindHTMLBlock {
			return ast.WalkSkipChildren, nil
		}
		if entering {
			out.WriteString(words(n, source))
		}
		// What is apart on the page is apart in the text.
		breaks, isText := n.(*ast.Text)
		if n.Type() == ast.TypeBlock || n.Kind() == ast.KindRawHTML ||
			isText && !entering && (breaks.SoftLineBreak() || breaks.HardLineBreak()) {
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// words are the text of a node itself.
func words(n ast.Node, source []byte) string {
	switch n := n.(type) {
	case *ast.Text:
		return html.UnescapeString(string(util.UnescapePunctuations(n.Value(source))))
	case *ast.AutoLink:
		return string(n.Label(source))
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return string(n.Lines().Value(source))
	}
	return ""
}

// relink maps the targets of links and images.
func relink(root ast.Node, resolve func(string) (string, error)) error {
	return ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		var target string
		switch n := n.(type) {
		case *ast.Link:
			target, err = resolve(string(n.Destination))
			n.Destination = []byte(target)
		case *ast.Image:
			target, err = resolve(string(n.Destination))
			n.Destination = []byte(target)
		}
		return ast.WalkContinue, err
	})
}

// linkHeadings gives each heading a link to itself, for readers who want to point to it.
func linkHeadings(root ast.Node) {
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || h.Level == 1 {
			continue
		}
		id, _ := h.AttributeString("id")
		link := ast.NewLink()
		link.Destination = append([]byte("#"), id.([]byte)...)
		link.SetAttributeString("class", []byte("anchor"))
		link.SetAttributeString("aria-label", []byte("Link to this section"))
		link.AppendChild(link, ast.NewString([]byte("#")))
		h.AppendChild(h, link)
	}
}
