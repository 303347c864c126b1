package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A flowchart is a diagram in what the pages use of Mermaid's language: nodes, chains of arrows, groups.
type flowchart struct {
	nodes  []*node
	edges  []edge
	groups []string // titles, in the order of the text
}

// A node is a box of a flowchart.
type node struct {
	id, label string
	group     int // index of its group; -1 is none
	rank      int // its row
	x, y      float64
}

// An edge is an arrow. A dotted one does not move what it leads to.
type edge struct {
	from, to *node
	label    string
	dotted   bool
}

var (
	chartNode  = regexp.MustCompile(`^\s*(\w+)(?:\["([^"]*)"\]|\[/([^/]*)/\]|\[([^\]]*)\])?`)
	chartArrow = regexp.MustCompile(`^\s*(?:(-->)|(-\.->)|-\.\s*(.*?)\s*\.->)`)
	chartGroup = regexp.MustCompile(`^subgraph \w+(?:\["([^"]*)"\])?$`)
)

// parseFlowchart reads a diagram. What it does not know is an error, since it would be missing in the picture.
func parseFlowchart(text string) (*flowchart, error) {
	f := &flowchart{}
	group := -1
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		title := chartGroup.FindStringSubmatch(line)
		switch {
		case line == "" || i == 0 && strings.HasPrefix(line, "flowchart "):
		case i == 0:
			return nil, fmt.Errorf("draw a diagram of kind %q: only flowcharts are known", line)
		case title != nil:
			f.groups = append(f.groups, title[1])
			group = len(f.groups) - 1
		case line == "end":
			group = -1
		default:
			if err := f.chain(line, group); err != nil {
				return nil, fmt.Errorf("draw line %d of a flowchart: %w", i+1, err)
			}
		}
	}
	return f, f.rank()
}

// chain reads nodes with arrows between them.
func (f *flowchart) chain(line string, group int) error {
	var last *node
	var arrow edge
	for rest := line; ; {
		match := chartNode.FindStringSubmatch(rest)
		if match == nil {
			return fmt.Errorf("%q is no node", rest)
		}
		rest = rest[len(match[0]):]
		next := f.node(match[1], match[2]+match[3]+match[4], group)
		if last != nil {
			arrow.from, arrow.to = last, next
			f.edges = append(f.edges, arrow)
		}
		if strings.TrimSpace(rest) == "" {
			return nil
		}
		match = chartArrow.FindStringSubmatch(rest)
		if match == nil {
			return fmt.Errorf("%q is no arrow", rest)
		}
		rest, last, arrow = rest[len(match[0]):], next, edge{dotted: match[1] == "", label: match[3]}
	}
}

// node returns the node of an id. It belongs to the group that it is first named in.
func (f *flowchart) node(id, label string, group int) *node {
	for _, n := range f.nodes {
		if n.id == id {
			if label != "" {
				n.label = label
			}
			return n
		}
	}
	n := &node{id: id, label: label, group: group}
	if label == "" {
		n.label = id
	}
	f.nodes = append(f.nodes, n)
	return n
}

// rank gives each node its row: below all that lead to it, and as near as it can be to what it leads to.
func (f *flowchart) rank() error {
	for round := 0; f.push(); round++ {
		if round > len(f.nodes) {
			return errors.New("draw a flowchart: its arrows are a circle")
		}
	}
	for _, n := range f.nodes {
		if n.group < 0 {
			f.pull(n)
		}
	}
	return nil
}

// push moves nodes below what leads to them, and reports whether there were any.
func (f *flowchart) push() bool {
	moved := false
	for _, e := range f.edges {
		if !e.dotted && e.to.rank <= e.from.rank {
			e.to.rank, moved = e.from.rank+1, true
		}
	}
	return moved
}

// pull moves a node that nothing leads to next to the first of those that it leads to.
func (f *flowchart) pull(n *node) {
	nearest := 0
	for _, e := range f.edges {
		if e.to == n {
			return
		}
		if e.from == n && (nearest == 0 || e.to.rank < nearest) {
			nearest = e.to.rank
		}
	}
	n.rank = max(nearest-1, 0)
}
