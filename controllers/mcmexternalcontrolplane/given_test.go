package mcmexternalcontrolplane_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestGivenKubeconfig(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given())
	w.reconcile()
	s := &corev1.Secret{}
	w.get(s, secretKey)
	owner := []metav1.OwnerReference{{
		APIVersion: "controlplane.cluster.x-k8s.io/v1alpha1", Kind: "MCMExternalControlPlane", Name: "cp", UID: "cp-uid",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	if diff := cmp.Diff([]any{clusterv1.ClusterSecretType, map[string]string{clusterv1.ClusterNameLabel: "c1"}, owner},
		[]any{s.Type, s.Labels, s.OwnerReferences}); diff != "" {
		t.Errorf("the Secret is as Cluster API wants it (-want +got):\n%s", diff)
	}
	if text := string(s.Data["value"]); strings.Contains(text, "other") || strings.Contains(text, "aws") {
		t.Errorf("only the current context counts:\n%s", text)
	}
	if c := w.config(); c.Host != "https://api.example.com:6443/k8s/7" || c.BearerToken != "s3cret" ||
		string(c.CAData) != "a CA" {
		t.Errorf("config = %v", c)
	}
	if got := w.cp().Spec.ControlPlaneEndpoint; got != (clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}) {
		t.Errorf("the endpoint is filled in from the kubeconfig: %v", got)
	}
	w.get(s, client.ObjectKey{Namespace: "default", Name: "given"})
	if _, moves := s.Labels["clusterctl.cluster.x-k8s.io/move"]; !moves {
		t.Error("clusterctl moves the given kubeconfig along")
	}
	w.writes = nil
	if w.reconcile(); len(w.writes) != 0 {
		t.Errorf("an unchanged object is not written: %v", w.writes)
	}
}

func TestKubeconfigFollows(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given())
	w.reconcile()
	s := &corev1.Secret{}
	w.change(s, client.ObjectKey{Namespace: "default", Name: "given"}, func() {
		s.Data = given("api.example.com", "new.example.com", "s3cret", "fresh").Data
	})
	w.reconcile()
	if c := w.config(); c.Host != "https://new.example.com:6443/k8s/7" || c.BearerToken != "fresh" {
		t.Errorf("a changed kubeconfig is followed, the endpoint that was filled in from the old one does not matter: %v", c)
	}
	w.change(s, secretKey, func() { s.OwnerReferences = nil })
	w.reconcile()
	if w.get(s, secretKey); len(s.OwnerReferences) != 1 {
		t.Error("a lost owner reference comes back")
	}
}

func TestEndpointOverride(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), given(), controlPlane(func(cp *controlplanev1.MCMExternalControlPlane) {
		cp.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "fd00::1", Port: 443}
	}))
	w.reconcile()
	if c := w.config(); c.Host != "https://[fd00::1]:443/k8s/7" {
		t.Errorf("the user's endpoint is where the kubeconfig leads: %v", c.Host)
	}
	if got := w.cp().Spec.ControlPlaneEndpoint.Host; got != "fd00::1" {
		t.Errorf("and is never overwritten: %v", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	spec := func(s controlplanev1.MCMExternalControlPlaneSpec) *controlplanev1.MCMExternalControlPlane {
		return controlPlane(func(cp *controlplanev1.MCMExternalControlPlane) { cp.Spec = s })
	}
	ref := &controlplanev1.NameReference{Name: "given"}
	const refused = controlplanev1.ReasonKubeconfigRefused + `: spec.kubeconfigSecretRef.name: Secret "given": `
	cases := map[string]struct {
		cp     *controlplanev1.MCMExternalControlPlane
		secret *corev1.Secret
		want   string
	}{
		"exec": {secret: given("current-context: main", "current-context: play"), want: refused +
			"users[dev].user.exec: "},
		"auth plugin": {secret: given("{token: s3cret}", "{auth-provider: {name: oidc}}"), want: refused +
			"users[admin].user.auth-provider: "},
		"token file": {secret: given("{token: s3cret}", "{tokenFile: t}"), want: refused + "users[admin].user.tokenFile: "},
		"certificate": {secret: given("{token: s3cret}", "{client-certificate: ./c}"), want: refused +
			"users[admin].user.client-certificate: "},
		"key": {secret: given("{token: s3cret}", "{client-key: /k}"), want: refused +
			"users[admin].user.client-key: "},
		"half a pair": {secret: given("{token: s3cret}", "{client-key-data: YQ==}"), want: refused +
			"users[admin].user.client-certificate-data: "},
		"CA file": {
			secret: given("certificate-authority-data: YSBDQQ==", "certificate-authority: ca.crt"),
			want:   refused + "clusters[prod].cluster.certificate-authority: ",
		},
		"no server": {secret: given("https://api.example.com:6443/k8s/7", ""), want: refused +
			"clusters[prod].cluster.server: "},
		"proxy": {
			secret: given(`"https://api.example.com:6443/k8s/7"`, `"https://a", proxy-url: "nonsense"`),
			want:   refused + "clusters[prod].cluster.proxy-url: ",
		},
		"insecure": {
			secret: given(`"https://api.example.com:6443/k8s/7"`, `"https://a", insecure-skip-tls-verify: true`),
			want:   refused + "clusters[prod].cluster.insecure-skip-tls-verify: ",
		},
		"no context": {secret: given("current-context: main", "current-context: gone"), want: refused +
			`current-context: there is no context "gone"`},
		"no user": {secret: given("user: admin", "user: gone"), want: refused +
			`contexts[main].context.user: there is no user "gone"`},
		"no kubeconf": {secret: given("apiVersion: v1", "s3cret: ["), want: refused + "is not a kubeconfig"},
		"no entry": {
			secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "given"}},
			want: machinev1.ReasonInvalidSecret +
				`: spec.kubeconfigSecretRef.name: Secret "given" has no entry "value" or "kubeconfig"`,
		},
		"no Secret": {want: machinev1.ReasonSecretNotFound +
			`: spec.kubeconfigSecretRef.name: there is no Secret "given"`},
		"no source": {cp: spec(controlplanev1.MCMExternalControlPlaneSpec{}), want: machinev1.ReasonInvalidSpec +
			": spec.kubeconfigSecretRef, spec.selfHosted: set exactly one"},
		"two sources": {cp: spec(controlplanev1.MCMExternalControlPlaneSpec{
			KubeconfigSecretRef: ref,
			SelfHosted:          new(true),
		}), secret: given(), want: machinev1.ReasonInvalidSpec +
			": spec.kubeconfigSecretRef, spec.selfHosted: set exactly one"},
		"half an end": {cp: spec(controlplanev1.MCMExternalControlPlaneSpec{
			KubeconfigSecretRef:  ref,
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "a"},
		}), secret: given(), want: machinev1.ReasonInvalidSpec +
			": spec.controlPlaneEndpoint: set both"},
		"its own name": {cp: spec(controlplanev1.MCMExternalControlPlaneSpec{
			KubeconfigSecretRef: &controlplanev1.NameReference{Name: "c1-kubeconfig"},
		}), want: machinev1.ReasonInvalidSpec + ": spec.kubeconfigSecretRef.name:"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{theCluster(), kubeSystem("here")}
			if tc.cp == nil {
				tc.cp = controlPlane()
			}
			if tc.secret != nil {
				objects = append(objects, tc.secret)
			}
			w := newEnv(t, append(objects, tc.cp)...)
			w.reconcile()
			if got := w.is(controlplanev1.KubeconfigReadyCondition); !strings.HasPrefix(got, "False "+tc.want) ||
				strings.Contains(got, "s3cret") {
				t.Errorf("KubeconfigReady = %q, want %q…", got, tc.want)
			}
			if !strings.HasPrefix(w.is(clusterv1.ReadyCondition), "False") || w.exists(&corev1.Secret{}, secretKey) {
				t.Errorf("nothing is made of it: %v", w.writes)
			}
			if e := w.event(); !strings.HasPrefix(e, "Warning") || strings.Contains(e, "s3cret") {
				t.Errorf("a mistake is told: %q", e)
			}
			w.writes = nil
			if w.reconcile(); w.event() != "" || len(w.writes) > 0 {
				t.Errorf("once: %v", w.writes)
			}
		})
	}
}

func TestSecretOfAnother(t *testing.T) {
	t.Parallel()
	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c1-kubeconfig"},
		Data:       map[string][]byte{"value": []byte("precious")},
	}
	w := newEnv(t, theCluster(), controlPlane(), given(), theirs)
	w.reconcile()
	s := &corev1.Secret{}
	if w.get(s, secretKey); string(s.Data["value"]) != "precious" ||
		!strings.HasPrefix(w.is(controlplanev1.KubeconfigReadyCondition), "False "+controlplanev1.ReasonSecretNameTaken) {
		t.Errorf("another's Secret is not overwritten: %s", w.is(controlplanev1.KubeconfigReadyCondition))
	}
}
