package class_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const goodSpec = `{"endpoint":"http://sim.invalid","region":"sim-1","instanceType":"small","image":"linux-1",
	"tags":{"kubernetes.io/cluster/c":"1","kubernetes.io/role/node":"1"}}`

func resolver(t *testing.T) *class.Resolver {
	t.Helper()
	e := harness.New(t, harness.At(start))
	return class.New(e.Registry(e.NewCloud()))
}

func machineClass(change ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := &machinev1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Namespace: "default", Name: "a", Finalizers: []string{machinev1.Finalizer}},
		Provider:             "SIM",
		ProviderSpec:         runtime.RawExtension{Raw: []byte(goodSpec)},
		SecretRef:            &corev1.SecretReference{Name: "boot"},
		CredentialsSecretRef: &corev1.SecretReference{Name: "keys", Namespace: "other"},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

var (
	boot = secret("default", "boot", map[string]string{"userData": "#cloud-config", "secretKey": "overlaid"})
	keys = secret("other", "keys", map[string]string{"accountID": "demo", "secretKey": "demo-secret"})
)

func TestResolve(t *testing.T) {
	t.Parallel()
	deleting := func(c *machinev1.MachineClass) { now := metav1.NewTime(start); c.DeletionTimestamp = &now }
	cases := map[string]struct {
		reason  string
		objects []client.Object
		create  string // reason that forbids creating
		all     string // reason that forbids everything
		text    string // part of the first
		secrets bool
	}{
		"Good": {
			reason:  "A good class forbids nothing, whatever the case of its provider.",
			objects: []client.Object{machineClass(), boot, keys}, secrets: true,
		},
		"NoClass": {
			reason: "A machine without class can neither be made nor removed, and the message names the class.",
			create: machinev1.ReasonClassNotFound, all: machinev1.ReasonClassNotFound,
			text: `no MachineClass "a" in namespace "default"`, secrets: true,
		},
		"Deleting": {
			reason:  "A class that is being deleted still serves deletions.",
			objects: []client.Object{machineClass(deleting), boot, keys}, create: machinev1.ReasonClassDeleting,
			text: "is being deleted", secrets: true,
		},
		"UnknownProvider": {
			reason:  "Nothing can be done in an unknown cloud; the message says which are known.",
			objects: []client.Object{machineClass(func(c *machinev1.MachineClass) { c.Provider = "nebula" }), boot, keys},
			create:  machinev1.ReasonInvalidSpec, all: machinev1.ReasonInvalidSpec,
			text: `provider: no driver is named "nebula", use one of sim`, secrets: true,
		},
		"UndecodableSpec": {
			reason: "A spec that is no object leaves nothing to call with.",
			objects: []client.Object{machineClass(func(c *machinev1.MachineClass) {
				c.ProviderSpec.Raw = []byte(`[]`)
			}), boot, keys},
			create: machinev1.ReasonInvalidSpec, all: machinev1.ReasonInvalidSpec, text: "providerSpec", secrets: true,
		},
		"BadNodeTemplate": {
			reason: "A node template matters to creation only.",
			objects: []client.Object{machineClass(func(c *machinev1.MachineClass) {
				c.NodeTemplate = &machinev1.NodeTemplate{
					Capacity:     corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
					InstanceType: "small", Region: "sim-1", Zone: "sim-1a",
				}
			}), boot, keys},
			create: machinev1.ReasonInvalidSpec, text: `nodeTemplate.capacity: has no entry "gpu"; add it, or remove ` +
				`nodeTemplate`, secrets: true,
		},
		"NoCredentials": {
			reason:  "Without the Secret of the credentials nothing works, and the Secret is what is missing.",
			objects: []client.Object{machineClass(), boot}, create: machinev1.ReasonSecretNotFound,
			all:  machinev1.ReasonSecretNotFound,
			text: `credentialsSecretRef: there is no Secret "other/keys"`,
		},
		"NoBootData": {
			reason:  "Without the Secret of the boot data a VM can still be removed.",
			objects: []client.Object{machineClass(), keys}, create: machinev1.ReasonSecretNotFound,
			text: `secretRef: there is no Secret "default/boot"`,
		},
		"IncompleteCredentials": {
			reason:  "An entry that the cloud needs and does not find is named.",
			objects: []client.Object{machineClass(), boot, secret("other", "keys", nil)}, create: machinev1.ReasonInvalidSecret,
			all:  machinev1.ReasonInvalidSecret,
			text: "accountID", secrets: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.New(t, harness.With(tc.objects...)).Raw
			got, err := resolver(t).Resolve(t.Context(), c, "default", "a")
			if err != nil {
				t.Fatal(err)
			}
			forCreate, forAll := got.Err(cloud.BlocksCreate), got.Err(cloud.BlocksAll)
			if diff := cmp.Diff([]string{tc.create, tc.all}, []string{reasonOf(forCreate), reasonOf(forAll)}); diff != "" {
				t.Errorf("reasons of create and all (-want +got): %s\n%s", tc.reason, diff)
			}
			if tc.text != "" && !strings.Contains(forCreate.Error(), tc.text) {
				t.Errorf("%q does not contain %q: %s", forCreate, tc.text, tc.reason)
			}
			if got.SecretsFound != tc.secrets {
				t.Errorf("SecretsFound = %v: %s", got.SecretsFound, tc.reason)
			}
			if account, err := got.Account(t.Context()); (account != nil) == (tc.all != "") || reasonOf(err) != tc.all {
				t.Errorf("Account() = %v, %v: %s", account, err, tc.reason)
			}
		})
	}
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Invalid {
		return e.Reason
	}
	return ""
}

func TestCredentialsAreOverlaid(t *testing.T) {
	t.Parallel()
	c := harness.New(t, harness.With(machineClass(), boot, keys)).Raw
	got, err := resolver(t).Resolve(t.Context(), c, "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	want := cloud.Credentials{
		"userData": []byte("#cloud-config"), "accountID": []byte("demo"),
		"secretKey": []byte("demo-secret"),
	}
	if diff := cmp.Diff(map[string][]byte(want), map[string][]byte(got.Credentials)); diff != "" {
		t.Errorf("credentialsSecretRef wins over secretRef (-want +got):\n%s", diff)
	}
	if !got.Protected {
		t.Error("the class has its finalizer")
	}
	if data, err := got.UserData(); err != nil || string(data) != "#cloud-config" {
		t.Errorf("UserData() = %q, %v", data, err)
	}
}

func TestUserDataMissing(t *testing.T) {
	t.Parallel()
	c := harness.New(t, harness.With(
		machineClass(func(c *machinev1.MachineClass) { c.SecretRef = nil }), keys)).Raw
	got, err := resolver(t).Resolve(t.Context(), c, "default", "a")
	if err != nil || got.Err(cloud.BlocksCreate) != nil {
		t.Fatalf("boot data is not the class's problem where it comes from elsewhere: %v, %v", err,
			got.Err(cloud.BlocksCreate))
	}
	if _, err := got.UserData(); reasonOf(err) != machinev1.ReasonInvalidUserData {
		t.Errorf("UserData() = %v, want reason %s", err, machinev1.ReasonInvalidUserData)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, kind := range []client.Object{&machinev1.MachineClass{}, &corev1.Secret{}} {
		e := harness.New(t, harness.With(machineClass(), boot, keys), harness.Answered(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption,
			) error {
				if cmp.Equal(kind, o) {
					return boom
				}
				return c.Get(ctx, key, o, opts...)
			},
		}))
		if _, err := resolver(t).Resolve(t.Context(), e.Client, "default", "a"); !errors.Is(err, boom) {
			t.Errorf("a failure to read %T must be an error that is retried, not a problem of the class: %v", kind, err)
		}
	}
}
