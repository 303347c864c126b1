package play

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

const moverName = "clusterctl"

// mover is one run of clusterctl move: it pauses the Cluster, waits until nothing
// blocks the move, copies all that belongs to it, owners first, deletes what is
// at the source, and lets the copy go on. Others act between any two of its steps.
// Source: Cluster API v1.14, cmd/clusterctl/client/cluster/mover.go.
type mover struct {
	world    *World
	from, to *home
	graph    []object                // owners first
	uids     map[types.UID]types.UID // of copies, by those of the originals
	copied   map[string]bool         // what has been made at the target
	dies     int                     // at which copy it is killed; negative: never
	tries    int
}

// object is one of those that move.
type object struct {
	kind *model.Kind
	key  types.NamespacedName
}

// move moves the Cluster to the other management cluster, if clusterctl would.
func (w *World) move(e Event) {
	from := w.clusterHome()
	if from == nil || len(w.homes) < 2 || w.away > 0 {
		return
	}
	to := w.homes[0]
	if from == to {
		to = w.homes[1]
	}
	if why := w.unmovable(from.server); why != "" {
		w.trace("%s refuses: %s", moverName, why)
		return
	}
	m := &mover{world: w, from: from, to: to, uids: map[types.UID]types.UID{}, copied: map[string]bool{}, dies: -1}
	if e.N>>9%4 == 0 {
		m.dies = int(e.N >> 11 % 40)
	}
	w.moving, w.lastMove = true, w.now
	m.pause(from, true)
	m.soon(m.wait)
}

// unmovable says why clusterctl refuses to move.
func (w *World) unmovable(s *model.Server) string {
	cluster, _ := find[*clusterv1.Cluster](s, clusterName)
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return "the Cluster is being deleted"
	case yes(cluster.Spec.Paused):
		return "the Cluster is paused"
	case !yes(cluster.Status.Initialization.InfrastructureProvisioned), !yes(
		cluster.Status.Initialization.ControlPlaneInitialized):
		return "the Cluster is not provisioned"
	}
	for _, m := range all[*clusterv1.Machine](s) {
		if !m.Status.NodeRef.IsDefined() {
			return "Machine " + m.Name + " has no Node"
		}
	}
	return ""
}

func (m *mover) soon(next func()) { m.world.after(m.world.between(0, 60*time.Millisecond), next) }

// pause pauses the Cluster, or has it go on, now or as soon as that is possible.
func (m *mover) pause(h *home, on bool) {
	if m.world.isDown(h.server) {
		m.world.after(20*time.Second, func() { m.pause(h, on) })
		return
	}
	m.world.trace("%s pauses the Cluster of %s: %v", moverName, h.name, on)
	editAs(m.world, moverName, h.server, clusterKey(), func(c *clusterv1.Cluster) { c.Spec.Paused = &on })
}

func clusterKey() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: clusterName}
}

// wait looks whether something blocks the move, several times; then it gives up.
func (m *mover) wait() {
	w := m.world
	if w.isDown(m.from.server) || w.isDown(m.to.server) {
		m.abort("an API server is down")
		return
	}
	m.graph = m.collect()
	for _, o := range m.graph {
		if _, blocked := o.kind.Look(o.key).GetAnnotations()[clusterctlv1.BlockMoveAnnotation]; !blocked {
			continue
		}
		const most = 10
		if m.tries++; m.tries >= most {
			m.abort(o.key.Name + " blocks the move")
			return
		}
		w.after(5*time.Second<<min(m.tries, 4), m.wait)
		return
	}
	m.copy(0)
}

// abort ends the run; the user takes away what was copied, and lets the Cluster
// go on where it is.
func (m *mover) abort(why string) {
	m.world.trace("%s gives up: %s", moverName, why)
	m.world.after(m.world.between(time.Second, 3*time.Minute), func() { m.undo(len(m.graph) - 1) })
}

// undo takes away the copies, from the i-th one back.
func (m *mover) undo(i int) {
	if i < 0 {
		m.pause(m.from, false)
		m.world.moving, m.world.lastMove = false, m.world.now
		return
	}
	next := func() { m.undo(i - 1) }
	o := m.graph[i]
	if !m.copied[o.key.String()+o.kind.GVK.Kind] {
		next()
		return
	}
	m.removeOne(m.to.server, object{m.to.server.KindOf(o.kind.New()), o.key}, next)
}

// collect returns what belongs to the Cluster, or is labelled, owners first.
func (m *mover) collect() []object {
	var found []object
	known := map[types.UID]bool{}
	for more := true; more; {
		more = false
		for _, k := range m.from.server.Kinds() {
			for _, o := range k.All() {
				if !known[o.GetUID()] && moves(o, known) {
					known[o.GetUID()], more = true, true
					found = append(found, object{k, client.ObjectKeyFromObject(o)})
				}
			}
		}
	}
	return found
}

// moves reports whether an object moves, and all of its owners that do are known.
func moves(o client.Object, known map[types.UID]bool) bool {
	if _, ok := o.(*clusterv1.Cluster); ok {
		return true
	}
	if _, marked := o.GetLabels()[clusterctlv1.ClusterctlMoveLabel]; marked {
		return true
	}
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return known[r.UID] })
}

// copy makes the i-th object at the target, and then the others.
func (m *mover) copy(i int) {
	w := m.world
	switch {
	case i >= len(m.graph):
		m.soon(func() { m.remove(len(m.graph) - 1) })
		return
	case i == m.dies:
		m.abort("it is killed")
		return
	case w.isDown(m.from.server), w.isDown(m.to.server):
		m.abort("an API server is down")
		return
	}
	if err := m.copyOne(m.graph[i]); err != nil {
		m.abort(err.Error())
		return
	}
	m.soon(func() { m.copy(i + 1) })
}

func (m *mover) copyOne(o object) error {
	original := o.kind.Look(o.key)
	if original == nil {
		return fmt.Errorf("%s %s is gone", o.kind.GVK.Kind, o.key.Name)
	}
	made := original.DeepCopyObject().(client.Object)
	made.SetResourceVersion("")
	var owners []metav1.OwnerReference
	for _, r := range made.GetOwnerReferences() {
		if uid, moved := m.uids[r.UID]; moved {
			r.UID = uid
			owners = append(owners, r)
		}
	}
	made.SetOwnerReferences(owners)
	made.SetUID("")
	made.SetCreationTimestamp(metav1.Time{})
	made.SetDeletionTimestamp(nil)
	k := m.to.server.KindOf(made)
	var stored client.Object
	var err error
	if there := k.Look(o.key); there != nil {
		stored, err = m.to.server.Update(moverName, made, false)
	} else {
		stored, err = m.to.server.Create(moverName, made)
	}
	if err != nil {
		return err
	}
	m.uids[original.GetUID()] = stored.GetUID()
	m.copied[o.key.String()+o.kind.GVK.Kind] = true
	m.world.trace("%s has copied %s %s", moverName, o.kind.GVK.Kind, o.key.Name)
	return nil
}

// remove takes the i-th object from the source, and then those before it.
func (m *mover) remove(i int) {
	w := m.world
	if i < 0 {
		m.pause(m.to, false)
		w.moving, w.lives, w.lastMove = false, m.to, w.now
		w.trace("%s is done", moverName)
		return
	}
	m.removeOne(m.from.server, m.graph[i], func() { m.remove(i - 1) })
}

// removeOne leaves an object no annotation but a mark, deletes it, and takes its
// finalizers away; others act between these steps. Then it does what is next.
func (m *mover) removeOne(s *model.Server, o object, next func()) {
	w := m.world
	steps := []func() error{
		func() error {
			patch := model.Patch{Type: types.JSONPatchType, Data: []byte(`[{"op":"add","path":"/metadata/annotations",` +
				`"value":{"` + clusterctlv1.DeleteForMoveAnnotation +
				`":""}}]`)}
			_, err := s.Patch(moverName, o.kind, o.key, patch, false)
			return err
		},
		func() error { return s.Delete(moverName, o.kind, o.key, &metav1.DeleteOptions{}) },
		func() error {
			patch := model.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":[]}}`)}
			_, err := s.Patch(moverName, o.kind, o.key, patch, false)
			return err
		},
	}
	var do func(i int)
	do = func(i int) {
		switch {
		case i >= len(steps), o.kind.Look(o.key) == nil:
			m.soon(next)
			return
		case w.isDown(s):
			w.after(10*time.Second, func() { do(i) })
			return
		}
		if err := steps[i](); err != nil {
			w.trace("%s: %s %s: %v", moverName, o.kind.GVK.Kind, o.key.Name, err)
		}
		m.soon(func() { do(i + 1) })
	}
	do(0)
}
