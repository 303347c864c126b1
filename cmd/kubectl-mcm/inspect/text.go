package inspect

import (
	"io"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// Text prints facts as the verbs do for people, for a command that has read them already.
type Text struct {
	Facts         *explain.Facts
	AllNamespaces bool
}

// Tree prints what tree -o wide does.
func (t Text) Tree(out io.Writer) error {
	f := &flags{allNamespaces: t.AllNamespaces, Flags: output.Flags{Format: output.Wide}}
	tree, _ := t.Facts.Tree(explain.TreeOptions{})
	return f.printTree(out, &tree, t.Facts.Now)
}

// Why prints what why does.
func (t Text) Why(out io.Writer, o *explain.Object) error {
	return (&flags{}).printWhy(out, []explain.Explanation{t.Facts.Why(o)}, t.Facts.Now)
}

// Timeline prints what timeline does.
func (t Text) Timeline(out io.Writer, o *explain.Object) error {
	timeline := t.Facts.Timeline(o)
	return (&flags{}).printTimeline(out, &timeline, t.Facts.Now)
}
