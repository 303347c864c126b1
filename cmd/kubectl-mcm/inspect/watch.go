package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

const (
	// collect is how long changes are collected before the clusters are read again: a pool that is
	// scaled changes dozens of objects at once.
	collect = time.Second
	// refresh is how often a terminal is written again although nothing has changed: ages grow, and
	// times pass at which something was to happen.
	refresh = 30 * time.Second
)

// A view is what a command finds in the facts, and how it prints that.
type view[T any] struct {
	source read.Source
	find   func(context.Context, *explain.Facts) (T, error)
	print  func(io.Writer, T, time.Time) error
	// warns is true if print itself says what was not read.
	warns bool
}

// warn says what was not read.
func (v *view[T]) warn(out io.Writer, facts *explain.Facts) {
	if !v.warns {
		output.Warn(out, facts.Unread)
	}
}

// show prints what is found, with --watch again whenever that changes, until the command's context ends.
func show[T any](f *flags, cmd *cobra.Command, v view[T]) (T, error) {
	if f.watch {
		return follow(f, cmd, v)
	}
	found, facts, err := look(f, cmd, v)
	if err != nil {
		return found, err
	}
	v.warn(cmd.ErrOrStderr(), facts)
	return found, v.print(cmd.OutOrStdout(), found, facts.Now)
}

func look[T any](f *flags, cmd *cobra.Command, v view[T]) (found T, facts *explain.Facts, err error) {
	if facts, err = f.read(cmd, v.source); err == nil {
		found, err = v.find(cmd.Context(), facts)
	}
	return found, facts, err
}

// follow prints what is found until the context ends. The watches are opened before the first look, so
// that no change is missed.
func follow[T any](f *flags, cmd *cobra.Command, v view[T]) (found T, err error) {
	ctx := cmd.Context()
	source, err := f.sourceOf(v.source)
	if err != nil {
		return found, err
	}
	changed, unwatched, err := source.Changes(ctx)
	if err != nil {
		return found, err
	}
	output.Warn(cmd.ErrOrStderr(), unwatched)
	p := &printer[T]{view: v, out: cmd.OutOrStdout(), errors: cmd.ErrOrStderr(), separator: f.separator()}
	for {
		found, facts, err := look(f, cmd, v)
		if ctx.Err() != nil {
			return found, nil //nolint:nilerr // interrupted, which is how it ends
		}
		if err = p.next(found, facts, err); err != nil {
			return found, err
		}
		if !wait(ctx, changed, p.failed) {
			return found, nil
		}
	}
}

// wait waits for a change and those that come with it, or until it is time to look anyway: soon
// after a failure. It reports false if ctx has ended.
func wait(ctx context.Context, changed <-chan struct{}, failed bool) bool {
	pause := refresh
	if failed {
		pause = 5 * collect
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	case <-changed:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(collect):
		return true
	}
}

// printer prints what has changed.
type printer[T any] struct {
	view[T]
	out, errors io.Writer
	separator   string
	last        []byte // what was found when it was last printed, as JSON; nil before
	failed      bool   // whether the last look failed
}

// next prints what a look found. A look that failed is reported and tried again, but for the first one, which
// shows what is wrong with the arguments.
func (p *printer[T]) next(found T, facts *explain.Facts, err error) error {
	p.failed = err != nil
	switch {
	case err == nil:
		return p.print(found, facts)
	case p.last == nil:
		return err
	}
	fmt.Fprintln(p.errors, "Warning: not read, and tried again:", err)
	return nil
}

func (p *printer[T]) print(found T, facts *explain.Facts) error {
	now, err := json.Marshal([]any{found, facts.Unread})
	if err != nil {
		return err
	}
	if bytes.Equal(now, p.last) && !output.Terminal(p.out) {
		return nil
	}
	first := p.last == nil
	p.last = now
	page := output.NewPage(p.out)
	if err := p.view.print(page, found, facts.Now); err != nil {
		return err
	}
	p.warn(p.errors, facts)
	return page.Replace(first, p.separator)
}

// separator stands between what is printed one after another.
func (f *flags) separator() string {
	switch {
	case f.ForPeople():
		return "\n"
	case f.Format == "yaml":
		return "---\n"
	}
	return ""
}

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
