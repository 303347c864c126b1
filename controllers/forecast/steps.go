package forecast

import (
	"fmt"
	"slices"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// act is one pass of the controller of MachineDeployments.
func (w *world) act() {
	w.findCurrent()
	current, old := w.views()
	switch rollout.NextStep(w.d, w.bounds, current, old) {
	case rollout.StepScale:
		w.scale()
	case rollout.StepRollBack:
		w.rollBack()
	case rollout.StepRollingUpdate:
		w.roll(current, old)
	case rollout.StepRecreate:
		w.recreate(old)
	case rollout.StepInPlaceUpdate:
		w.updateInPlace(current, old)
	case rollout.StepNone:
	}
}

func (w *world) findCurrent() {
	sets := make([]*machinev1.MachineSet, len(w.sets))
	for i, m := range w.sets {
		sets[i] = m.set
	}
	w.current = nil
	if set := rollout.FindNewSet(&w.d.Spec.Template, sets); set != nil {
		w.current = w.sets[slices.Index(sets, set)]
	}
}

func (w *world) olds() []*member {
	return slices.DeleteFunc(slices.Clone(w.sets), func(m *member) bool { return m == w.current })
}

func (w *world) view(m *member) rollout.Set {
	return rollout.ViewOf(m.set, m.set.Spec.Replicas, m.machines, w.now)
}

func (w *world) views() (current *rollout.Set, old []rollout.Set) {
	if w.current != nil {
		view := w.view(w.current)
		current = &view
	}
	for _, m := range w.olds() {
		old = append(old, w.view(m))
	}
	return current, old
}

// resize sets the replicas of a set, and notes what they were derived from.
func (w *world) resize(m *member, n int) {
	if !m.set.DeletionTimestamp.IsZero() {
		return
	}
	w.changed = w.changed || m.set.Spec.Replicas != int32(n) // #nosec G115 -- at most those that the API server admitted
	m.set.Spec.Replicas = int32(n)                           // #nosec G115 -- as above
	before := m.set.Annotations[machinev1.DesiredReplicasAnnotation]
	rollout.Annotate(m.set, w.d, w.bounds)
	w.changed = w.changed || before != m.set.Annotations[machinev1.DesiredReplicasAnnotation]
}

// add adds the set with the template.
func (w *world) add(size int) {
	set := &machinev1.MachineSet{}
	set.Name = fmt.Sprintf("%s-new-%d", w.d.Name, len(w.sets))
	set.CreationTimestamp.Time = w.now.Add(time.Duration(len(w.sets)) * time.Second)
	set.Spec.Template = *w.d.Spec.Template.DeepCopy()
	w.current = &member{set: set}
	w.sets = append(w.sets, w.current)
	w.changed = true
	w.resize(w.current, size)
}

func (w *world) scale() {
	if w.current != nil {
		w.sync()
		if w.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType {
			w.shrinkOld()
		}
	}
	views, at := make([]rollout.Set, len(w.sets)), -1
	for i, m := range w.sets {
		views[i] = w.view(m)
		if m == w.current {
			at = i
		}
	}
	at = rollout.MarkFailing(w.d, views, at)
	for i, size := range rollout.Scaled(w.bounds, views, at, rollout.Proportional(w.d)) {
		if views[i].Active() || size > 0 {
			w.resize(w.sets[i], size)
		}
	}
}

// rollBack gives the deployment the template of the requested revision.
func (w *world) rollBack() {
	sets := make([]*machinev1.MachineSet, len(w.sets))
	for i, m := range w.sets {
		sets[i] = m.set
	}
	revision := w.d.Spec.RollbackTo.Revision
	if revision == 0 {
		revision = rollout.LastRevision(sets)
	}
	w.d.Spec.RollbackTo, w.changed = nil, true
	set := rollout.OfRevision(sets, revision)
	if set != nil && !machinev1.SameTemplate(&w.d.Spec.Template, &set.Spec.Template) {
		w.d.Spec.Template = *set.Spec.Template.DeepCopy()
		delete(w.d.Spec.Template.Labels, machinev1.TemplateHashLabel)
	}
}

func (w *world) roll(current *rollout.Set, old []rollout.Set) {
	if current == nil {
		w.add(rollout.NewReplicas(w.bounds, rollout.Set{}, old))
		current, old = w.views()
	}
	w.sync()
	next := rollout.RollOf(w.d, w.bounds, *current, old)
	if next.New != current.Spec {
		w.resize(w.current, next.New)
	}
	for i, m := range w.olds() {
		if next.Keep[i] != old[i].Spec {
			w.resize(m, next.Keep[i])
		}
	}
}

func (w *world) recreate(old []rollout.Set) {
	for i, m := range w.olds() {
		if old[i].Spec > 0 {
			w.resize(m, 0)
		}
	}
	if w.current != nil {
		w.sync()
	}
	switch {
	case !rollout.Gone(old):
	case w.current == nil:
		w.add(w.bounds.Replicas)
	case int(w.current.set.Spec.Replicas) != w.bounds.Replicas:
		w.resize(w.current, w.bounds.Replicas)
	}
}

// sync gives the set with the template what needs no new Machines, and lets it grow, which an update in
// place may have ruled out.
func (w *world) sync() {
	rollout.SyncInPlace(&w.current.set.Spec.Template.Spec, &w.d.Spec.Template.Spec)
	delete(w.current.set.Labels, machinev1.ScaleUpDisabledLabel)
}
