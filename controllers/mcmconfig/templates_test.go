package mcmconfig_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
)

// template is an MCMConfigTemplate of Cluster c1, which names Secret boot.
func template(change ...func(*bootstrapv1.MCMConfigTemplate)) *bootstrapv1.MCMConfigTemplate {
	t := &bootstrapv1.MCMConfigTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "t", UID: "template-uid",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c1"}},
	}}
	t.Spec.Template.Spec.UserDataSecretRef = &bootstrapv1.NameReference{Name: "boot"}
	for _, c := range change {
		c(t)
	}
	return t
}

// TestTemplateMoves: a pool of no machines moves with what it boots from.
func TestTemplateMoves(t *testing.T) {
	t.Parallel()
	byClass := func(t *bootstrapv1.MCMConfigTemplate) {
		t.Spec.Template.Spec = bootstrapv1.MCMConfigSpec{MachineClassRef: &bootstrapv1.NameReference{Name: "small"}}
	}
	cases := map[string]struct {
		reason        string
		template      *bootstrapv1.MCMConfigTemplate
		secret, class bool
	}{
		"Secret": {"No MCMConfig may ever have read it.", template(), true, false},
		"Class":  {"The MCMMachineTemplate may name another one, or be of another provider.", template(byClass), false, true},
		"Absent": {"What does not exist is said by who needs it.", template(func(t *bootstrapv1.MCMConfigTemplate) {
			t.Spec.Template.Spec.UserDataSecretRef.Name = "none"
		}), false, false},
		"Paused": {"A paused object is left alone.", template(func(t *bootstrapv1.MCMConfigTemplate) {
			t.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}), false, false},
		"Moving": {"It lives on elsewhere.", template(func(t *bootstrapv1.MCMConfigTemplate) {
			t.Annotations = map[string]string{capi.DeleteForMoveAnnotation: ""}
		}), false, false},
		"ClusterClass": {"Its names are placeholders.", template(func(t *bootstrapv1.MCMConfigTemplate) {
			t.OwnerReferences[0].Kind = "ClusterClass"
		}), false, false},
		"Nothing": {"The spec may be incomplete.", template(func(t *bootstrapv1.MCMConfigTemplate) {
			t.Spec.Template.Spec = bootstrapv1.MCMConfigSpec{}
		}), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, cluster(), secret("boot", userData), machineClass(corev1.SecretReference{Name: "boot"}),
				tc.template)
			w.reconcileTemplate()
			w.writes = nil
			w.reconcileTemplate()
			secret, class := w.moves(&corev1.Secret{}, "boot"), w.moves(&machinev1.MachineClass{}, "small")
			if secret != tc.secret || class != tc.class {
				t.Errorf("Secret moves: %v, class: %v; want %v, %v: %s", secret, class, tc.secret, tc.class, tc.reason)
			}
			if len(w.writes) > 0 {
				t.Errorf("what is marked is not written again: %v", w.writes)
			}
		})
	}
}

// TestTemplateEditedInPlace: its machines do not show what it says by now.
func TestTemplateEditedInPlace(t *testing.T) {
	t.Parallel()
	name := func(secret string) func(*bootstrapv1.MCMConfigTemplate) {
		return func(t *bootstrapv1.MCMConfigTemplate) { t.Spec.Template.Spec.UserDataSecretRef.Name = secret }
	}
	const edited = "False EditedInPlace: spec.template was edited in place"
	cases := map[string]struct {
		reason string
		before *bootstrapv1.MCMConfigTemplate
		edits  []string // names of the Secret, one after the other
		want   string
		events int
	}{
		"Never":  {"The spec is as it was made.", template(), nil, "True Unchanged", 0},
		"Once":   {"Machines that exist do not follow.", template(), []string{"other"}, edited, 1},
		"Undone": {"New machines are like the others again.", template(), []string{"other", "boot"}, "True Unchanged", 1},
		"Copy": {
			"A ClusterClass copies annotations and changes the copy.",
			template(name("other"), func(t *bootstrapv1.MCMConfigTemplate) {
				t.Annotations = map[string]string{infrav1.SpecHashAnnotation: "another-uid/0123"}
			}), nil, "True Unchanged", 0,
		},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, cluster(), secret("boot", userData), tc.before)
			w.reconcileTemplate()
			at, o := client.ObjectKeyFromObject(tc.before), &bootstrapv1.MCMConfigTemplate{}
			for _, secret := range tc.edits {
				w.change(o, at, func() { name(secret)(o) })
				w.reconcileTemplate()
			}
			w.get(o, at)
			got := ""
			if c := meta.FindStatusCondition(o.Status.Conditions, bootstrapv1.SpecUnchangedCondition); c != nil {
				got = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			if !strings.HasPrefix(got, tc.want) || len(w.events.Events) != tc.events {
				t.Errorf("SpecUnchanged is %q with %d Events, want %q with %d: %s", got, len(w.events.Events), tc.want, tc.events,
					tc.reason)
			}
		})
	}
}

func (w *env) reconcileTemplate() {
	w.t.Helper()
	at := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "t"}}
	if _, err := mcmconfig.NewTemplates(w.deps).Reconcile(w.t.Context(), at); err != nil {
		w.t.Fatal(err)
	}
}

// TestConfigMovesItsClass: no template need be there.
func TestConfigMovesItsClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config(fromClass), machineClass(corev1.SecretReference{
		Name:      "boot",
		Namespace: "default",
	}))...)
	w.reconcile()
	if !w.moves(&machinev1.MachineClass{}, "small") {
		t.Error("the class stays behind")
	}
}

// moves reports whether clusterctl takes an object along.
func (w *env) moves(o client.Object, name string) bool {
	w.t.Helper()
	w.get(o, client.ObjectKey{Namespace: "default", Name: name})
	_, marked := o.GetLabels()[capi.MoveLabel]
	return marked
}
