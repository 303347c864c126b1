package read

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// waiting is a machine whose VM exists and whose node does not, and the token of its bootstrap data.
func waiting() []client.Object {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "m", UID: "uid-m"}}
	m.Spec.ProviderID = "sim:///sim-1/vm-1"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: token.SecretName(token.ID("uid-m", 1))},
		Data: map[string][]byte{
			token.KeyExpiration: []byte(now.Format(time.RFC3339)), "token-secret": []byte("canary"),
		},
	}
	return []client.Object{m, secret}
}

// serving is an API server with objects, whose requests fail as fault says.
func serving(t *testing.T, fault func(object any) error, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := fault(list); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if err := fault(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no right"))
}

func TestAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault  func(any) error
		tokens int
		unread string
		target string
		err    string
	}{
		"everything": {fault: func(any) error { return nil }, tokens: 1},
		"no right to Secrets": {fault: func(o any) error {
			if _, is := o.(*corev1.Secret); is {
				return forbidden()
			}
			return nil
		}, unread: "bootstrap tokens"},
		"no right to Nodes": {fault: func(o any) error {
			if _, is := o.(*corev1.NodeList); is {
				return forbidden()
			}
			return nil
		}, tokens: 1, unread: "Nodes"},
		"an API server that does not answer": {fault: func(o any) error {
			if _, is := o.(*corev1.NodeList); is {
				return errors.New("connection refused")
			}
			return nil
		}, unread: "Nodes", target: "connection refused"},
		"Cluster API is not installed": {fault: func(o any) error {
			if _, is := o.(*clusterv1.MachineList); is {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Machine"}}
			}
			return nil
		}, tokens: 1},
		"no permissions at all": {fault: func(any) error { return forbidden() }, err: "no right"},
		"a failure": {fault: func(o any) error {
			if _, is := o.(*machinev1.MachineList); is {
				return errors.New("connection refused")
			}
			return nil
		}, err: "list Machines: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := serving(t, tc.fault, waiting()...)
			source := Source{Control: api, Target: api, Namespace: "garden", Now: now, Joining: true, Events: true}
			f, err := source.All(t.Context())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Find("Machine", "m")) != 1 || len(f.Tokens) != tc.tokens || f.TargetError != tc.target {
				t.Errorf("%d tokens, API server %q, %d objects; want %d and %q", len(f.Tokens), f.TargetError, len(f.Objects),
					tc.tokens, tc.target)
			}
			if strings.Contains(fmt.Sprintf("%+v", f), "canary") {
				t.Error("the secret part of a token is kept")
			}
			unread := strings.Join(f.Unread, "\n")
			if (unread == "") != (tc.unread == "") || !strings.Contains(unread, tc.unread) {
				t.Errorf("not read: %q, want %q", unread, tc.unread)
			}
		})
	}
}

// TestSecretsThatExplainNothing: before a machine has a VM, neither its token nor the consoles of machines
// before tell why it does not join, and a reader without the right to Secrets is not warned.
func TestSecretsThatExplainNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		providerID string
		unread     string
	}{
		"no VM yet": {},
		"a VM that does not join": {
			providerID: "sim:///sim-1/vm-1", unread: "consoles of machines that did not join: ; bootstrap tokens: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "d", UID: "uid-d"}}
			d.Spec.Replicas = 1
			d.APIVersion, d.Kind = machinev1.GroupVersion.String(), "MachineDeployment"
			m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "m", UID: "uid-m"}}
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, d.GroupVersionKind())}
			m.Spec.ProviderID = tc.providerID
			api := serving(t, func(o any) error {
				if _, is := o.(*corev1.Secret); is {
					return forbidden()
				}
				return nil
			}, d, m)
			source := Source{Control: api, Target: api, Namespace: "garden", Now: now, Joining: true, Consoles: true}
			f, err := source.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refusal := forbidden().Error()
			if unread := strings.ReplaceAll(strings.Join(f.Unread, "; "), refusal, ""); unread != tc.unread {
				t.Errorf("not read: %q, want %q", unread, tc.unread)
			}
		})
	}
}
