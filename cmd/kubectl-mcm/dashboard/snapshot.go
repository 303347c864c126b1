package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// Dashboard is what a page knows about its data.
type Dashboard struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when the clusters were read.
	Time        metav1.Time `json:"time"`
	Namespace   string      `json:"namespace,omitempty"` // empty: all
	Selector    string      `json:"selector,omitempty"`
	PollSeconds float64     `json:"pollSeconds"`
	// Error is why a newer reading failed.
	Error  string   `json:"error,omitempty"`
	Unread []string `json:"unread,omitempty"`
}

// errNoObject is returned for a name that no object has any more.
var errNoObject = errors.New("no such object; it may have been deleted")

// snapshot is what was read at one time. What all viewers see first is made once.
type snapshot struct {
	facts     *explain.Facts
	selector  labels.Selector
	namespace string
	tree      explain.Tree // healthy machines of a set are one branch
	top       explain.Top

	using sync.Mutex // Facts are not safe for concurrent use
}

func newSnapshot(facts *explain.Facts, selector labels.Selector, namespace string) *snapshot {
	s := &snapshot{facts: facts, selector: selector, namespace: namespace}
	s.top, _ = facts.Top(nil, selector)
	s.tree = s.selected(false)
	return s
}

// about is what a page knows about this state.
func (s *snapshot) about(failure error) Dashboard {
	d := Dashboard{
		TypeMeta: metav1.TypeMeta{APIVersion: explain.Version, Kind: "Dashboard"}, Time: metav1.NewTime(s.facts.Now.UTC()),
		Namespace: s.namespace, PollSeconds: pollEvery.Seconds(), Unread: s.facts.Unread,
	}
	if s.selector != nil {
		d.Selector = s.selector.String()
	}
	if failure != nil {
		d.Error = failure.Error()
	}
	return d
}

// selected is the tree of what the selector selects. A pool of Cluster API may have the labels, while its Cluster,
// with which trees begin, does not.
func (s *snapshot) selected(all bool) explain.Tree {
	tree, _ := s.facts.Tree(explain.TreeOptions{Selector: s.selector, All: all})
	for i := range s.top.Items {
		pool := s.top.Items[i].Object
		if find(tree.Items, pool) != nil {
			continue
		}
		named, _ := s.facts.Tree(explain.TreeOptions{Pools: []string{pool.Name}, All: all})
		if b := find(named.Items, pool); b != nil {
			tree.Items = append(tree.Items, b)
		}
	}
	return tree
}

// find is the branch of an object; nil if there is none.
func find(branches []*explain.Branch, o explain.Ref) *explain.Branch {
	for _, b := range branches {
		if b.Object == o && b.Healthy == 0 {
			return b
		}
		if found := find(b.Children, o); found != nil {
			return found
		}
	}
	return nil
}

// treeOf is the tree of a query: that of everything, or with pool=NAME of pools, with all=true with every machine.
func (s *snapshot) treeOf(query url.Values) (any, error) {
	pools, all := query["pool"], query.Get("all") == "true"
	switch {
	case len(pools) == 0 && !all:
		return s.tree, nil
	case len(pools) == 0:
		return s.selected(true), nil
	}
	tree, missing := s.facts.Tree(explain.TreeOptions{Pools: pools, All: all})
	if len(missing) > 0 {
		return nil, fmt.Errorf("pool %q: %w", missing[0], errNoObject)
	}
	return tree, nil
}

// topOf is how the pools are doing.
func (s *snapshot) topOf(url.Values) (any, error) { return s.top, nil }

// why explains the object of a query.
func (s *snapshot) why(query url.Values) (any, error) {
	o, err := s.object(query)
	if err != nil {
		return nil, err
	}
	return s.facts.Why(o), nil
}

// timeline is that of the object of a query.
func (s *snapshot) timeline(query url.Values) (any, error) {
	o, err := s.object(query)
	if err != nil {
		return nil, err
	}
	return s.facts.Timeline(o), nil
}

// object is the one that a query names by kind and name, and by namespace and apiVersion where several have those.
// A Node stands for its machine.
func (s *snapshot) object(query url.Values) (*explain.Object, error) {
	wanted := explain.Ref{
		APIVersion: query.Get("apiVersion"), Kind: query.Get("kind"), Namespace: query.Get("namespace"),
		Name: query.Get("name"),
	}
	if wanted.Kind == explain.KindNode {
		if machines := s.facts.MachinesOfNode(wanted.Name); len(machines) > 0 {
			return machines[0], nil
		}
	}
	found := s.facts.Find(wanted.Kind, wanted.Name)
	i := slices.IndexFunc(found, func(o *explain.Object) bool {
		return (wanted.Namespace == "" || o.Namespace == wanted.Namespace) &&
			(wanted.APIVersion == "" || o.APIVersion == wanted.APIVersion)
	})
	if i < 0 {
		return nil, fmt.Errorf("%s %q: %w", wanted.Kind, wanted.Name, errNoObject)
	}
	return found[i], nil
}

const (
	// pollEvery is how often a page asks while it is visible.
	pollEvery = 5 * time.Second
	// leastAge is how old a state becomes before a question makes the clusters be read again.
	leastAge = 4 * time.Second
	// shareOfTime bounds the load of a large fleet: it is read at most one part of the time in so many.
	shareOfTime = 10
	// readTimeout is how long a reading may take.
	readTimeout = time.Minute
)

// source reads the clusters for all viewers: when one of them asks, and the state is old enough. Without a viewer
// nothing is read.
type source struct {
	reader   read.Source
	selector labels.Selector
	now      func() time.Time

	turn chan struct{} // has one element while somebody uses what follows
	next time.Time     // not before
	last *snapshot     // of the last reading that succeeded; nil: none has
	err  error         // of the newest reading
}

func newSource(reader read.Source, selector labels.Selector, now func() time.Time) *source {
	return &source{reader: reader, selector: selector, now: now, turn: make(chan struct{}, 1)}
}

// current is the newest state, with the error of a newer reading that failed. Without any state it is nil.
func (s *source) current(ctx context.Context) (*snapshot, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !s.now().Before(s.next) {
		s.read(ctx)
	}
	return s.last, s.err
}

// read reads the clusters. It goes on for the others when the viewer who asked first has left.
func (s *source) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	began := s.now()
	reader := s.reader
	reader.Now = began
	facts, err := reader.All(ctx)
	if s.err = err; err == nil {
		s.last = newSnapshot(facts, s.selector, s.reader.Namespace)
	}
	ended := s.now()
	s.next = ended.Add(max(leastAge, (shareOfTime-1)*ended.Sub(began)))
}
