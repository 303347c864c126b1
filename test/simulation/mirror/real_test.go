package mirror

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// TestLikeARealServer does the same random operations to the model and to a real
// API server, and wants the same answers.
func TestLikeARealServer(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{filepath.Join(root, "config", "crd")}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := c.Config()
	config.QPS = -1
	actual, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	const operations = 1200
	p := &pair{
		T: t, rng: rand.New(rand.NewPCG(7, 7)), real: actual,
		model: newModel(scheme),
	}
	for i := range operations {
		p.step(i)
		if t.Failed() {
			t.Log(strings.Join(p.history[max(len(p.history)-60, 0):], "\n"))
			return
		}
	}
	t.Logf("%d operations of %d kinds were answered alike: %v", operations, len(p.done), p.done)
}

func newModel(scheme *runtime.Scheme) client.Client {
	uids := 0
	s := apiserver.New(time.Now, func() types.UID { uids++; return types.UID(fmt.Sprint("uid-", uids)) })
	machines := machinev1.GroupVersion
	s.Serve(apiserver.Kind{
		GVK: machines.WithKind("Machine"), Resource: machines.WithResource("machines").GroupResource(), Namespaced: true,
		Status: true, Generation: true,
	}, &machinev1.Machine{}, &machinev1.MachineList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: corev1.Resource("secrets"), Namespaced: true,
	}, &corev1.Secret{}, &corev1.SecretList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Node"), Resource: corev1.Resource("nodes"), Status: true, KeepsStatus: true,
	}, &corev1.Node{}, &corev1.NodeList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.Resource("pods"), Namespaced: true, Status: true,
		KeepsStatus: true, Grace: true,
	}, &corev1.Pod{}, &corev1.PodList{})
	return &Client{Server: s, Schema: scheme, Wire: func(_ context.Context, _ Call, effect func(string) error) error {
		return effect("test")
	}}
}

// pair is a real server and the model of one, to which the same is done.
type pair struct {
	*testing.T
	rng         *rand.Rand
	real, model client.Client
	known       [][2]client.Object // versions of objects that were answered, of both
	done        map[string]int
	history     []string // what was done, for people who look for a difference
}

// step does one random operation to both.
func (p *pair) step(i int) {
	p.Helper()
	name := fmt.Sprintf("o-%d", p.rng.IntN(3))
	operations := []struct {
		name string
		do   func(string) (operation, bool)
	}{
		{"create", p.create},
		{"create", p.create},
		{"update", p.update},
		{"update status", p.updateStatus},
		{"merge patch", p.mergePatch},
		{"locked merge patch", p.lockedPatch},
		{"status patch", p.statusPatch},
		{"finalizer off", p.dropFinalizer},
		{"delete", p.deleteIt},
		{"delete with preconditions", p.deleteExactly},
		{"strategic status patch", p.strategicPatch},
		{"get", p.get},
		{"evict", p.evict},
	}
	chosen := operations[p.rng.IntN(len(operations))]
	o, possible := chosen.do(name)
	if !possible {
		return
	}
	var errs [2]error
	var objects [2]client.Object
	for side, c := range []client.Client{p.real, p.model} {
		objects[side], errs[side] = o(p.Context(), c, side)
	}
	if p.done == nil {
		p.done = map[string]int{}
	}
	p.done[chosen.name]++
	p.history = append(p.history, fmt.Sprintf("%d: %s of %T %s: %s, versions %s and %s, deletion %v and %v", i,
		chosen.name, objects[0], client.ObjectKeyFromObject(objects[0]),
		reason(errs[0]), objects[0].GetResourceVersion(), objects[1].GetResourceVersion(),
		objects[0].GetDeletionTimestamp(), objects[1].GetDeletionTimestamp()))
	if got, want := reason(errs[1]), reason(errs[0]); got != want {
		p.Errorf("step %d, %s of %T %s: the model answers %q (%v), the real server %q (%v)", i, chosen.name, objects[0], name,
			got, errs[1], want, errs[0])
		return
	}
	if errs[0] != nil {
		return
	}
	if diff := cmp.Diff(plain(objects[0]), plain(objects[1]), cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("step %d, %s of %T %s: the model (+) answers something else than the real server (-):\n%s", i, chosen.name,
			objects[0], name, diff)
	}
	p.known = append(p.known, [2]client.Object{clone(objects[0]), clone(objects[1])})
	if len(p.known) > 40 {
		p.known = p.known[20:]
	}
}

// reason of an error, "" for none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return err.Error()
	}
	return fmt.Sprint(status.Status().Code, " ", apierrors.ReasonForError(err))
}

// plain is what must be equal of two objects.
func plain(o client.Object) client.Object {
	out := clone(o)
	gone := !out.GetDeletionTimestamp().IsZero()
	out.SetUID("")
	out.SetResourceVersion("")
	out.SetCreationTimestamp(metav1.Time{})
	out.SetManagedFields(nil)
	out.SetDeletionTimestamp(nil)
	if gone {
		out.SetDeletionTimestamp(&metav1.Time{})
	}
	out.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind().GroupVersion().WithKind(""))
	switch out := out.(type) {
	case *corev1.Node:
		out.Spec.Taints, out.Status = nil, corev1.NodeStatus{Conditions: out.Status.Conditions} // admission and defaults
	case *corev1.Pod:
		out.Generation = 0
		out.Spec, out.Status = corev1.PodSpec{NodeName: out.Spec.NodeName}, corev1.PodStatus{Phase: corev1.PodPending}
	case *corev1.Secret:
		out.Type = ""
	}
	return out
}

func clone(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
