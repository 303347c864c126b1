package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// diagrams renders blocks of code, and draws those that are flowcharts.
type diagrams struct{}

// RegisterFuncs registers the block that it renders.
func (d diagrams) RegisterFuncs(registerer renderer.NodeRendererFuncRegisterer) {
	registerer.Register(ast.KindFencedCodeBlock, d.render)
}

func (diagrams) render(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	block, ok := n.(*ast.FencedCodeBlock)
	if !ok || !entering {
		return ast.WalkContinue, nil
	}
	text, language := string(block.Lines().Value(source)), string(block.Language(source))
	if language != "mermaid" {
		fmt.Fprintf(w, "<pre tabindex=\"0\"><code class=\"language-%s\">%s</code></pre>\n",
			html.EscapeString(language), html.EscapeString(text))
		return ast.WalkSkipChildren, nil
	}
	f, err := parseFlowchart(text)
	if err != nil {
		return ast.WalkStop, err
	}
	_, err = w.WriteString(f.draw())
	return ast.WalkSkipChildren, err
}

// Sizes of a picture, in its own units.
const (
	pictureWidth = 840.0
	rowHeight    = 84.0
	boxHeight    = 36.0
	letter       = 7.3 // the width of one, about
)

// draw is the picture, as SVG. Its colors are those of the page.
func (f *flowchart) draw() string {
	rows := f.place()
	var out strings.Builder
	fmt.Fprintf(&out, "<div class=\"scroll\" tabindex=\"0\"><svg class=\"diagram\" viewBox=\"-24 0 %.0f %.0f\" "+
		"role=\"img\" aria-label=\"Diagram\">\n<defs><marker id=\"site-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "+
		"markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
		pictureWidth+48, float64(rows)*rowHeight)
	for i, title := range f.groups {
		f.drawGroup(&out, i, title)
	}
	for _, e := range f.edges {
		e.draw(&out)
	}
	for _, n := range f.nodes {
		fmt.Fprintf(&out, "<rect class=\"box\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"6\"/>"+
			"<text x=\"%.0f\" y=\"%.0f\">%s</text>\n", n.x-n.half(), n.y-boxHeight/2, 2*n.half(), boxHeight, n.x, n.y+4.5,
			html.EscapeString(n.label))
	}
	out.WriteString("</svg></div>\n")
	return out.String()
}

// place finds the place of each node, and returns the number of rows. Each group has a lane from the top down,
// and so have the nodes beside groups; a row without groups has the whole width.
func (f *flowchart) place() int {
	lanes := len(f.groups) + 1
	rows := 0
	byLane := map[[2]int][]*node{} // by row and lane
	grouped := map[int]bool{}
	for _, n := range f.nodes {
		rows = max(rows, n.rank+1)
		grouped[n.rank] = grouped[n.rank] || n.group >= 0
		lane := (n.group + lanes) % lanes // the last one is that of no group
		byLane[[2]int{n.rank, lane}] = append(byLane[[2]int{n.rank, lane}], n)
	}
	widths, sum := make([]int, lanes), 0
	for lane := range lanes {
		for row := range rows {
			if grouped[row] {
				widths[lane] = max(widths[lane], len(byLane[[2]int{row, lane}]))
			}
		}
		sum += widths[lane]
	}
	for row := range rows {
		left := 0.0
		for lane := range lanes {
			width := pictureWidth * float64(widths[lane]) / float64(max(sum, 1))
			if !grouped[row] {
				left, width = 0, pictureWidth
			}
			spread(byLane[[2]int{row, lane}], left, width)
			left += width
		}
	}
	return rows
}

// spread puts nodes beside one another, with equal gaps.
func spread(nodes []*node, left, width float64) {
	for _, n := range nodes {
		width -= 2 * n.half()
	}
	gap := max(width/float64(max(len(nodes), 1)), 8)
	for _, n := range nodes {
		n.x = left + gap/2 + n.half()
		n.y = (float64(n.rank) + 0.5) * rowHeight
		left += gap + 2*n.half()
	}
}

// half is half the width of a node's box.
func (n *node) half() float64 { return float64(len([]rune(n.label)))*letter/2 + 10 }

func (f *flowchart) drawGroup(out *strings.Builder, group int, title string) {
	left, right, top, bottom := pictureWidth, 0.0, 1e9, 0.0
	for _, n := range f.nodes {
		if n.group == group {
			left, right = min(left, n.x-n.half()), max(right, n.x+n.half())
			top, bottom = min(top, n.y), max(bottom, n.y)
		}
	}
	half := float64(len([]rune(title))) * letter * 0.45
	middle := (left + right) / 2
	left, right = min(left-10, middle-half-8), max(right+10, middle+half+8)
	top, bottom = top-boxHeight/2-22, bottom+boxHeight/2+12
	fmt.Fprintf(out, "<rect class=\"group\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"10\"/>"+
		"<text class=\"title\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
		left, top, right-left, bottom-top, middle, top+15, html.EscapeString(title))
}

// draw draws an arrow: down in the lane where it begins, and over to the other one in the last gap.
func (e edge) draw(out *strings.Builder) {
	from, to := e.from, e.to
	var path string
	x, y := (from.x+to.x)/2, from.y-6
	switch {
	case from.rank == to.rank && from.x > to.x:
		path = fmt.Sprintf("M%.0f %.0fH%.0f", from.x-from.half(), from.y, to.x+to.half()+2)
		x = (from.x - from.half() + to.x + to.half()) / 2
	case from.rank == to.rank:
		path = fmt.Sprintf("M%.0f %.0fH%.0f", from.x+from.half(), from.y, to.x-to.half()-2)
		x = (from.x + from.half() + to.x - to.half()) / 2
	default:
		end := to.y - boxHeight/2 - 2
		bend := max(from.y+boxHeight/2, to.y-rowHeight+boxHeight/2)
		y = (bend+end)/2 - 4
		path = fmt.Sprintf("M%.0f %.0fV%.0fC%.0f %.0f %.0f %.0f %.0f %.0f", from.x, from.y+boxHeight/2, bend,
			from.x, (bend+end)/2, to.x, (bend+end)/2, to.x, end)
	}
	class := "arrow"
	if e.dotted {
		class += " dotted"
	}
	fmt.Fprintf(out, "<path class=\"%s\" d=\"%s\" marker-end=\"url(#site-tip)\"/>", class, path)
	if e.label != "" {
		fmt.Fprintf(out, "<text class=\"title\" x=\"%.0f\" y=\"%.0f\">%s</text>", x, y, html.EscapeString(e.label))
	}
	out.WriteString("\n")
}
