package apiserver

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create stores o, which is not modified, and returns it as stored.
func (s *Server) Create(by string, o client.Object) (client.Object, error) {
	k := s.KindOf(o)
	made, err := canonical(k, o)
	if err != nil {
		return nil, err
	}
	if made.GetName() == "" && made.GetGenerateName() != "" {
		made.SetName(made.GetGenerateName() + strconv.FormatUint(s.version+1, 36))
	}
	if problem := s.invalid(k, made); problem != nil {
		return nil, problem
	}
	key := client.ObjectKeyFromObject(made)
	if k.stored[key] != nil {
		return nil, apierrors.NewAlreadyExists(k.Resource, made.GetName())
	}
	made.SetUID(s.uid())
	made.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	made.SetDeletionTimestamp(nil)
	made.SetDeletionGracePeriodSeconds(nil)
	made.SetGeneration(0)
	if k.Generation {
		made.SetGeneration(1)
	}
	if k.Status && !k.KeepsStatus {
		zeroStatus(made)
	}
	s.record(k, by, nil, made)
	return made, nil
}

func (s *Server) invalid(k *Kind, o client.Object) error {
	switch {
	case o.GetName() == "":
		return apierrors.NewInvalid(k.GVK.GroupKind(), "", nil)
	case o.GetResourceVersion() != "":
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case k.Namespaced && o.GetNamespace() == "":
		return apierrors.NewBadRequest("the server could not find the requested resource")
	}
	return nil
}

// Update replaces the stored object by o, or with status only its status.
func (s *Server) Update(by string, o client.Object, status bool) (client.Object, error) {
	k := s.KindOf(o)
	wanted, err := canonical(k, o)
	if err != nil {
		return nil, err
	}
	return s.replace(by, k, wanted, status)
}

// replace stores wanted, which is its own from then on.
func (s *Server) replace(by string, k *Kind, wanted client.Object, status bool) (client.Object, error) {
	key := client.ObjectKeyFromObject(wanted)
	before := k.Look(key)
	if before == nil {
		return nil, apierrors.NewNotFound(k.Resource, key.Name)
	}
	if uid := wanted.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, conflict(k, key.Name)
	}
	if v := wanted.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
		return nil, conflict(k, key.Name)
	}
	if !before.GetDeletionTimestamp().IsZero() && !status {
		for _, f := range wanted.GetFinalizers() {
			if !slices.Contains(before.GetFinalizers(), f) {
				return nil, apierrors.NewInvalid(k.GVK.GroupKind(), key.Name, nil) // nothing new may hold what is going
			}
		}
	}
	after := s.merged(k, before, wanted, status)
	after.SetResourceVersion(before.GetResourceVersion())
	if !before.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0 && !graceful(k, after) {
		s.record(k, by, before, nil)
		return after, nil
	}
	if Equal(before, after) {
		return before, nil
	}
	s.record(k, by, before, after)
	return after, nil
}

// graceful reports whether an object that is being deleted waits for its kubelet.
func graceful(k *Kind, o client.Object) bool {
	seconds := o.GetDeletionGracePeriodSeconds()
	return k.Grace && seconds != nil && *seconds > 0
}

// merged is what wanted makes of before: status and the rest are written
// separately, and what the server itself writes stays.
func (s *Server) merged(k *Kind, before, wanted client.Object, status bool) client.Object {
	after := wanted
	switch {
	case status && k.Status:
		after = k.New()
		reflect.ValueOf(after).Elem().Set(reflect.ValueOf(before).Elem())
		copyStatus(after, wanted)
	case k.Status:
		copyStatus(after, before)
	}
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	after.SetSelfLink("")
	after.SetGeneration(before.GetGeneration())
	if k.Generation && !status && !sameSpec(before, after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	return after
}

// Delete marks the object of that key as going, or takes it out if nothing
// holds it.
func (s *Server) Delete(by string, k *Kind, key types.NamespacedName, o *metav1.DeleteOptions) error {
	before := k.Look(key)
	if before == nil {
		return apierrors.NewNotFound(k.Resource, key.Name)
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != before.GetUID() || p.ResourceVersion != nil &&
			*p.ResourceVersion != before.GetResourceVersion() {
			return conflict(k, key.Name)
		}
	}
	grace := int64(0)
	if k.Grace {
		grace = gracePeriod(before, o)
	}
	foreground := o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationForeground
	if len(before.GetFinalizers()) == 0 && grace == 0 && !foreground {
		s.record(k, by, before, nil)
		return nil
	}
	return s.mark(by, k, before, grace, foreground)
}

// gracePeriod of a pod: as asked for, else as it says; a pod that has no node
// or has ended goes at once.
func gracePeriod(o client.Object, opts *metav1.DeleteOptions) int64 {
	pod, ok := o.(*corev1.Pod)
	switch {
	case !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return 0
	case opts.GracePeriodSeconds != nil:
		return *opts.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// mark puts the time of deletion onto an object that something still holds.
func (s *Server) mark(by string, k *Kind, before client.Object, grace int64, foreground bool) error {
	after := before.DeepCopyObject().(client.Object)
	if !before.GetDeletionTimestamp().IsZero() && (!k.Grace || *before.GetDeletionGracePeriodSeconds() <= grace) &&
		!foreground {
		return nil // it is going already
	}
	at := s.now().Truncate(time.Second).Add(time.Duration(grace) * time.Second)
	if before.GetDeletionTimestamp().IsZero() || k.Grace {
		after.SetDeletionTimestamp(&metav1.Time{Time: at})
		after.SetDeletionGracePeriodSeconds(&grace)
	}
	if k.Generation && before.GetDeletionTimestamp().IsZero() {
		after.SetGeneration(after.GetGeneration() + 1)
	}
	if foreground {
		after.SetFinalizers(append(after.GetFinalizers(), metav1.FinalizerDeleteDependents))
	}
	s.record(k, by, before, after)
	return nil
}

// Eviction deletes a pod if no disruption budget minds.
func (s *Server) Eviction(by string, key types.NamespacedName, e *policyv1.Eviction) error {
	k := s.KindOf(&corev1.Pod{})
	pod := k.Look(key)
	if pod == nil {
		return apierrors.NewNotFound(k.Resource, key.Name)
	}
	opts := e.DeleteOptions
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if s.Evict != nil && pod.GetDeletionTimestamp().IsZero() {
		if err := s.Evict(pod); err != nil {
			return err
		}
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != pod.GetUID() {
		return conflict(k, key.Name)
	}
	s.disrupt(by, k, pod.(*corev1.Pod))
	return s.Delete(by, k, key, opts)
}

// disrupt notes on a pod that it is evicted.
func (s *Server) disrupt(by string, k *Kind, pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return
		}
	}
	after := pod.DeepCopy()
	after.Status.Conditions = append(after.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: metav1.NewTime(s.now().Truncate(time.Second)),
	})
	s.record(k, by, pod, after)
}

// Equal reports whether two objects mean the same. Most of their fields are the
// same in every bit, which is told much sooner.
func Equal(a, b client.Object) bool {
	return reflect.DeepEqual(a, b) || equalFields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func equalFields(a, b reflect.Value) bool {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		if !IsScalar(x.Type()) {
			if !equalFields(x, y) {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(x.Interface(), y.Interface()) && !equality.Semantic.DeepEqual(x.Interface(), y.Interface()) {
			return false
		}
	}
	return true
}

// sameSpec reports whether two objects are equal apart from metadata and status.
func sameSpec(a, b client.Object) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		switch x.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if f, g := x.Field(i), y.Field(i); f.Kind() == reflect.Struct && !equalFields(f, g) ||
			f.Kind() != reflect.Struct && !equality.Semantic.DeepEqual(f.Interface(), g.Interface()) {
			return false
		}
	}
	return true
}

func copyStatus(to, from client.Object) {
	reflect.ValueOf(to).Elem().FieldByName("Status").Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
}

func zeroStatus(o client.Object) {
	reflect.ValueOf(o).Elem().FieldByName("Status").SetZero()
}

// refuse is the error about a request that cannot be read.
func refuse(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}
