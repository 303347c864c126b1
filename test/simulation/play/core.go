package play

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// coreName is who writes in the name of Cluster API.
const coreName = "cluster api"

// core is what Cluster API's own controllers do in a management cluster, as far
// as providers see it: a while after something has changed it goes through all
// objects and does of each what is next. Its view is never stale; it stands for
// the surroundings, and what is tested are the providers.
// Source: Cluster API v1.14, core/reconcilers.
type core struct {
	world  *World
	home   *home
	waking bool
	serial int // of names

	drained map[types.UID]time.Time // Machines, when their drain began
	unwell  map[types.UID]time.Time // Machines, since when
}

func newCore(w *World, h *home) *core {
	return &core{world: w, home: h, drained: map[types.UID]time.Time{}, unwell: map[types.UID]time.Time{}}
}

// wake has it go through the objects soon, once for all that happens meanwhile.
func (c *core) wake() {
	if c.waking {
		return
	}
	c.waking = true
	c.world.after(c.world.between(50*time.Millisecond, 3*time.Second), c.pass)
}

// wakeIn is for what nothing tells about.
func (c *core) wakeIn(d time.Duration) { c.world.after(d, c.wake) }

func (c *core) pass() {
	c.waking = false
	if c.world.isDown(c.home.server) {
		c.wakeIn(10 * time.Second)
		return
	}
	for _, cluster := range all[*clusterv1.Cluster](c.home.server) {
		c.sayPaused(cluster)
		if !yes(cluster.Spec.Paused) {
			c.cluster(cluster)
		}
	}
}

// sayPaused puts on all that it looks after its finalizer, and whether that is
// paused: neither waits for the end of a pause.
func (c *core) sayPaused(cluster *clusterv1.Cluster) {
	s := c.home.server
	for _, d := range all[*clusterv1.MachineDeployment](s) {
		d = hold(c, d, clusterv1.MachineDeploymentFinalizer)
		tellPaused(c, cluster, d, d.Spec.ClusterName)
	}
	for _, set := range all[*clusterv1.MachineSet](s) {
		set = hold(c, set, clusterv1.MachineSetFinalizer)
		tellPaused(c, cluster, set, set.Spec.ClusterName)
	}
	for _, m := range all[*clusterv1.Machine](s) {
		m = hold(c, m, clusterv1.MachineFinalizer)
		tellPaused(c, cluster, m, m.Spec.ClusterName)
	}
}

func hold[T client.Object](c *core, o T, finalizer string) T {
	if !o.GetDeletionTimestamp().IsZero() || controllerutil.ContainsFinalizer(o, finalizer) {
		return o
	}
	return put(c, o, func(o T) { controllerutil.AddFinalizer(o, finalizer) })
}

// withConditions is what has conditions.
type withConditions interface {
	client.Object
	conditions.Setter
	conditions.Getter
}

// tellPaused writes whether an object of a Cluster is paused, if it does not say so.
func tellPaused[T withConditions](c *core, cluster *clusterv1.Cluster, o T, named string) {
	if named != cluster.Name {
		return
	}
	is := metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason, ObservedGeneration: o.GetGeneration(),
	}
	if yes(cluster.Spec.Paused) || paused(o) {
		is.Status, is.Reason = metav1.ConditionTrue, clusterv1.PausedReason
	}
	if said := conditions.Get(o, is.Type); said != nil && said.Status == is.Status && said.Reason == is.Reason &&
		said.ObservedGeneration == is.ObservedGeneration {
		return
	}
	is.LastTransitionTime = metav1.NewTime(c.world.now.Truncate(time.Second))
	tell(c, o, func(o T) { conditions.Set(o, is) })
}

// all are the objects of a type, sorted by key. They must not be modified.
func all[T client.Object](s *model.Server) []T {
	var none T
	k := s.KindOf(none)
	if k == nil {
		return nil
	}
	var out []T
	for _, o := range k.All() {
		out = append(out, o.(T))
	}
	return out
}

// find is the object of that name; not ok if there is none.
func find[T client.Object](s *model.Server, name string) (T, bool) {
	var none T
	k := s.KindOf(none)
	if k == nil {
		return none, false
	}
	found, ok := k.Look(types.NamespacedName{Namespace: namespace, Name: name}).(T)
	return found, ok
}

// put writes what change changes of an object, apart from its status, and
// returns it as it is then.
func put[T client.Object](c *core, o T, change func(T)) T {
	changed := o.DeepCopyObject().(T)
	change(changed)
	return c.save(o, changed, false).(T)
}

// tell writes what change changes of the status of an object.
func tell[T client.Object](c *core, o T, change func(T)) T {
	changed := o.DeepCopyObject().(T)
	change(changed)
	return c.save(o, changed, true).(T)
}

func (c *core) save(before, after client.Object, status bool) client.Object {
	if model.Equal(before, after) {
		return before
	}
	stored, err := c.home.server.Update(coreName, after, status)
	if err != nil {
		c.world.trace("%s: %T %s: %v", coreName, after, after.GetName(), err)
		c.wakeIn(5 * time.Second)
		return before
	}
	return stored
}

// remove deletes an object, unless that has begun.
func (c *core) remove(o client.Object) {
	if !o.GetDeletionTimestamp().IsZero() {
		return
	}
	c.world.trace("%s deletes %T %s", coreName, o, o.GetName())
	err := c.home.server.Delete(coreName, c.home.server.KindOf(o), client.ObjectKeyFromObject(o), &metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		c.world.trace("%s: %T %s: %v", coreName, o, o.GetName(), err)
		c.wakeIn(5 * time.Second)
	}
}

// children are the objects of a type that an object controls.
func children[T client.Object](s *model.Server, owner client.Object) []T {
	return slices.DeleteFunc(all[T](s), func(o T) bool { return !metav1.IsControlledBy(o, owner) })
}

// paused reports whether an object itself is to be left alone.
func paused(o client.Object) bool {
	_, found := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return found
}

func yes(b *bool) bool { return b != nil && *b }

// belong labels an object of a Cluster, and makes somebody its owner, in memory.
func belong(o client.Object, cluster string, owner *metav1.OwnerReference) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = cluster
	o.SetLabels(labels)
	refs := o.GetOwnerReferences()
	at := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.Name == owner.Name
	})
	if at < 0 {
		o.SetOwnerReferences(append(refs, *owner))
		return
	}
	refs[at] = *owner
}

// belongs reports whether belong would change nothing.
func belongs(o client.Object, cluster string, owner *metav1.OwnerReference) bool {
	refs := o.GetOwnerReferences()
	at := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.Name == owner.Name
	})
	return at >= 0 && o.GetLabels()[clusterv1.ClusterNameLabel] == cluster && equality.Semantic.DeepEqual(refs[at], *owner)
}

// adopt writes that an object is of a Cluster and has an owner, if it does not say so.
func adopt[T client.Object](c *core, o T, cluster string, owner *metav1.OwnerReference) T {
	if belongs(o, cluster, owner) {
		return o
	}
	return put(c, o, func(o T) { belong(o, cluster, owner) })
}

func clusterRef(cluster *clusterv1.Cluster, controls bool) *metav1.OwnerReference {
	ref := metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	if !controls {
		ref.Controller, ref.BlockOwnerDeletion = nil, nil
	}
	return ref
}

// cluster does what is next of a Cluster that is not paused.
func (c *core) cluster(cluster *clusterv1.Cluster) {
	s := c.home.server
	if cluster.DeletionTimestamp.IsZero() {
		cluster = hold(c, cluster, clusterv1.ClusterFinalizer)
		c.gates(cluster)
	} else {
		c.removeCluster(cluster)
	}
	for _, d := range all[*clusterv1.MachineDeployment](s) {
		if d.Spec.ClusterName == cluster.Name && !paused(d) {
			c.deployment(cluster, d)
		}
	}
	for _, set := range all[*clusterv1.MachineSet](s) {
		if set.Spec.ClusterName == cluster.Name && !paused(set) {
			c.set(cluster, set)
		}
	}
	for _, m := range all[*clusterv1.Machine](s) {
		if m.Spec.ClusterName == cluster.Name && !paused(m) {
			c.machine(cluster, m)
		}
	}
}

// gates opens what providers wait for.
func (c *core) gates(cluster *clusterv1.Cluster) {
	infra, found := find[*infrav1.MCMCluster](c.home.server, cluster.Spec.InfrastructureRef.Name)
	if found {
		infra = adopt(c, infra, cluster.Name, clusterRef(cluster, true))
	}
	plane, known := find[*controlplanev1.MCMExternalControlPlane](c.home.server, cluster.Spec.ControlPlaneRef.Name)
	if known {
		plane = adopt(c, plane, cluster.Name, clusterRef(cluster, true))
	}
	tell(c, cluster, func(o *clusterv1.Cluster) {
		if found && yes(infra.Status.Initialization.Provisioned) {
			o.Status.Initialization.InfrastructureProvisioned = new(true)
		}
		if known && yes(plane.Status.Initialization.ControlPlaneInitialized) {
			o.Status.Initialization.ControlPlaneInitialized = new(true)
			conditions.Set(o, metav1.Condition{
				Type:   clusterv1.ClusterControlPlaneInitializedCondition,
				Status: metav1.ConditionTrue, Reason: clusterv1.ClusterControlPlaneInitializedReason,
			})
		}
	})
}

// removeCluster takes a Cluster down: first what it has of machines, then the
// control plane, then the infrastructure.
func (c *core) removeCluster(cluster *clusterv1.Cluster) {
	s, left := c.home.server, 0
	for _, d := range all[*clusterv1.MachineDeployment](s) {
		if d.Spec.ClusterName == cluster.Name {
			c.remove(d)
			left++
		}
	}
	for _, set := range all[*clusterv1.MachineSet](s) {
		if set.Spec.ClusterName == cluster.Name {
			left++
		}
	}
	for _, m := range all[*clusterv1.Machine](s) {
		if m.Spec.ClusterName == cluster.Name {
			if metav1.GetControllerOf(m) == nil {
				c.remove(m)
			}
			left++
		}
	}
	if left > 0 {
		return
	}
	if plane, found := find[*controlplanev1.MCMExternalControlPlane](s, cluster.Spec.ControlPlaneRef.Name); found {
		c.remove(plane)
		return
	}
	if infra, found := find[*infrav1.MCMCluster](s, cluster.Spec.InfrastructureRef.Name); found {
		c.remove(infra)
		return
	}
	put(c, cluster, func(o *clusterv1.Cluster) { controllerutil.RemoveFinalizer(o, clusterv1.ClusterFinalizer) })
}
