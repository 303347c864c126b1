package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// An env is a target cluster in which evictions are answered by a test.
type env struct {
	*harness.Env
	drainer *Drainer
	request Request

	answer func(pod string) error // to an eviction, or a deletion if it begins with !; nil lets it go
	stay   bool                   // an evicted or deleted pod does not go by itself
	calls  []string               // evict and delete, with the pod
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{}
	w.Env = harness.New(t, harness.At(epoch), harness.With(node()), harness.With(objects...),
		harness.Indexed(index.Target(), Indexes()),
		harness.Answered(interceptor.Funcs{SubResourceCreate: w.evict, Delete: w.delete}))
	w.restart()
	w.request = Request{
		Started: epoch, Timeout: 2 * time.Hour, MaxEvictRetries: 360,
		PVDetachTimeout: 2 * time.Minute, PVReattachTimeout: 90 * time.Second,
		VolumeID: func(s *corev1.PersistentVolumeSpec) (string, bool) {
			if s.CSI == nil || s.CSI.Driver != "sim" {
				return "", false
			}
			return s.CSI.VolumeHandle, true
		},
	}
	return w
}

// restart forgets what the drainer remembers.
func (w *env) restart() {
	w.drainer = New(Deps{Target: &target.Cluster{Client: w.Client, Live: w.Client}, Clock: w.Clock})
}

func (w *env) evict(_ context.Context, _ client.Client, _ string, o, body client.Object,
	_ ...client.SubResourceCreateOption,
) error {
	w.calls = append(w.calls, "evict "+o.GetName())
	if opts := body.(*policyv1.Eviction).DeleteOptions; opts == nil || opts.Preconditions == nil ||
		opts.Preconditions.UID == nil {
		w.Errorf("eviction of %s without UID", o.GetName())
	}
	if w.answer != nil {
		if err := w.answer(o.GetName()); err != nil {
			return err
		}
	}
	if !w.stay {
		w.end(o.GetName())
	}
	return nil
}

func (w *env) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if _, pod := o.(*corev1.Pod); !pod {
		return c.Delete(ctx, o, opts...)
	}
	var got client.DeleteOptions
	got.ApplyOptions(opts)
	if got.GracePeriodSeconds == nil || *got.GracePeriodSeconds != 0 || got.Preconditions == nil ||
		got.Preconditions.UID == nil {
		w.Errorf("pod %s is deleted with grace or without UID", o.GetName())
	}
	w.calls = append(w.calls, "delete "+o.GetName())
	if w.answer != nil {
		if err := w.answer("!" + o.GetName()); err != nil {
			return err
		}
	}
	if !w.stay {
		w.end(o.GetName())
	}
	return nil
}

// end removes a pod at once, as its kubelet does.
func (w *env) end(pod string) {
	w.Helper()
	p := harness.Get[corev1.Pod](w.Cluster, client.ObjectKey{Namespace: "d", Name: pod})
	if p.DeletionTimestamp == nil {
		w.Delete(p)
		return
	}
	w.RemoveFinalizers(p)
}

// pass drains once, and returns the calls it made.
func (w *env) pass() (Result, []string) {
	w.Helper()
	r, calls, err := w.try()
	if err != nil {
		w.Fatal(err)
	}
	if !r.Done && r.Wait <= 0 {
		w.Errorf("Drain() = %+v: a drain that is not done must say when to look again", r)
	}
	return r, calls
}

func (w *env) try() (Result, []string, error) {
	w.Helper()
	w.calls = nil
	w.request.Node = harness.Get[corev1.Node](w.Cluster, client.ObjectKey{Name: "n"})
	r, err := w.drainer.Drain(w.Context(), w.request)
	return r, w.calls, err
}

func (w *env) attach(names ...string) {
	w.Helper()
	harness.Edit(w.Cluster, node(), func(n *corev1.Node) {
		n.Status.VolumesAttached = nil
		for _, v := range names {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached,
				corev1.AttachedVolume{Name: corev1.UniqueVolumeName("kubernetes.io/csi/sim^" + v)})
		}
	})
}

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}} }

func pod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func claiming(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
			}})
		}
	}
}

func app(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels["app"] = name } }

func prio(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = new(n) } }

func terminatingAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(at)), []string{"test/kubelet"}
	}
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: kind, Name: "o", UID: "o",
			Controller: new(true),
		}}
	}
}

// disk is a claim and its bound volume of the same name.
func disk(name string) []client.Object {
	return []client.Object{
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "d", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       "sim",
				VolumeHandle: name,
			}},
		}},
	}
}

func attachment(volume, node string, attached bool) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: node,
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: attached},
	}
}

func pdb(name, app string, status policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Generation: 2},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: status,
	}
}

// denied refuses evictions, and no deletions.
func denied(pod string) error {
	if strings.HasPrefix(pod, "!") {
		return nil
	}
	return apierrors.NewTooManyRequests("denied", 0)
}
