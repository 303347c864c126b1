package class_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const (
	realURL  = "https://cloud.example.com"
	otherURL = "https://elsewhere.example.com"
)

// pair is a class with two Secrets: its own, in its namespace, and shared keys.
type pair struct {
	own, keys map[string]string
	namespace string // of the keys
	swapped   bool   // the own Secret is credentialsSecretRef's
}

func (p pair) objects() []*corev1.Secret {
	shared := secret(p.namespace, "keys", p.keys)
	shared.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: "default"}
	return []*corev1.Secret{secret("default", "own", p.own), shared}
}

// class names both Secrets.
func (p pair) class() *machinev1.MachineClass {
	return machineClass(func(c *machinev1.MachineClass) {
		c.SecretRef = &corev1.SecretReference{Name: "own"}
		c.CredentialsSecretRef = &corev1.SecretReference{Name: "keys", Namespace: p.namespace}
		if p.swapped {
			c.SecretRef, c.CredentialsSecretRef = c.CredentialsSecretRef, c.SecretRef
		}
	})
}

// TestOneLogin: where to log in, and with what, has to come from one Secret.
func TestOneLogin(t *testing.T) {
	t.Parallel()
	whole := map[string]string{"url": realURL, "accountID": "demo", "secretKey": "demo-secret"}
	half := map[string]string{"accountID": "demo", "secretKey": "demo-secret"}
	cases := map[string]struct {
		reason string
		pair   pair
		// What Cluster API and the native API do: accept the pair, refuse it, or merge with a warning.
		clusterAPI, native string
		says               []string
	}{
		"boot data": {
			"A Secret that only adds boot data has no part in the login.",
			pair{own: map[string]string{"userData": "#cloud-config", "note": "x"}, keys: whole, namespace: "other"},
			"accept", "accept", nil,
		},
		"address": {
			"The author of the one Secret would get the credentials of the other sent to an address of theirs.",
			pair{own: map[string]string{"url": otherURL}, keys: half, namespace: "other"},
			"refuse", "refuse",
			[]string{"Secret default/own (secretRef) gives url", "Secret other/keys (credentialsSecretRef) gives secretKey"},
		},
		"address over a whole login": {
			"It is the same if the credentials had an address of their own.",
			pair{own: map[string]string{"url": otherURL}, keys: whole, namespace: "other", swapped: true},
			"refuse", "refuse",
			[]string{"Secret other/keys (secretRef) gives secretKey", "Secret default/own (credentialsSecretRef) gives url"},
		},
		"address in one namespace": {
			"MCM merges the Secrets, and within a namespace that stays.",
			pair{own: map[string]string{"url": realURL}, keys: half, namespace: "default"},
			"refuse", "merge",
			[]string{"Secret default/own (secretRef) gives url", "Secret default/keys (credentialsSecretRef) gives secretKey"},
		},
		"names": {
			"A name that only says who logs in sends nothing anywhere.",
			pair{
				own:       map[string]string{"accountID": "demo"},
				keys:      map[string]string{"url": realURL, "secretKey": "demo-secret"},
				namespace: "other",
			},
			"accept", "accept", nil,
		},
		"equal entries": {
			"What both Secrets have alike is no other's.",
			pair{own: map[string]string{"url": realURL, "userData": "#cloud-config"}, keys: whole, namespace: "other"},
			"accept", "accept", nil,
		},
		"overlaid as a whole": {
			"Of two whole logins that of credentialsSecretRef is used, as MCM does.",
			pair{
				own:  map[string]string{"url": otherURL, "accountID": "x", "secretKey": "another-secret"},
				keys: whole, namespace: "other",
			},
			"accept", "accept", nil,
		},
		"an empty entry": {
			"An entry without a value says nothing.",
			pair{own: map[string]string{"secretKey": "", "userData": "#cloud-config"}, keys: whole, namespace: "other"},
			"accept", "accept", nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for api, want := range map[string]string{"Cluster API": tc.clusterAPI, "native": tc.native} {
				e := harness.New(t, harness.At(start))
				d := &harness.Located{Driver: e.NewCloud().Driver(), URL: realURL}
				clouds, err := cloud.NewRegistry([]cloud.Driver{d}, e.Clock.Now)
				if err != nil {
					t.Fatal(err)
				}
				secrets := tc.pair.objects()
				c := harness.New(t, harness.With(tc.pair.class(), secrets[0], secrets[1])).Raw
				resolve := class.New(clouds).Resolve
				if api == "Cluster API" {
					resolve = class.New(clouds).ResolveForClusterAPI
				}
				r, err := resolve(t.Context(), c, "default", "a")
				if err != nil {
					t.Fatal(err)
				}
				_, accountErr := r.Account(t.Context())
				got := "accept"
				if accountErr != nil {
					got = "refuse"
				} else if slices.ContainsFunc(r.Problems, func(p cloud.Problem) bool { return p.Severity == cloud.Warning }) {
					got = "merge"
				}
				if got != want {
					t.Errorf("%s: got %s, want %s: %v\nbecause: %s", api, got, want, accountErr, tc.reason)
				}
				for _, s := range d.Sent() {
					if want == "refuse" {
						t.Errorf("%s: the key %q was sent to %s\nbecause: %s", api, s.Secret, s.URL, tc.reason)
					}
				}
				for _, text := range tc.says {
					if all := fmt.Sprint(r.Problems); !strings.Contains(all, text) {
						t.Errorf("%s: got %s, want %q in it", api, all, text)
					}
				}
			}
		})
	}
}

// TestLoginsThatDelete: with which logins of a class that is refused a VM is looked for, so that it can
// be deleted.
func TestLoginsThatDelete(t *testing.T) {
	t.Parallel()
	whole := map[string]string{"url": realURL, "accountID": "demo", "secretKey": "demo-secret"}
	half := map[string]string{"accountID": "demo", "secretKey": "demo-secret"}
	cases := map[string]struct {
		reason string
		pair   pair
		own    string // class of the VM
		want   []string
	}{
		"one is whole": {
			"Its credentials go to its own address.",
			pair{own: map[string]string{"url": otherURL}, keys: whole, namespace: "other", swapped: true},
			"a",
			[]string{`"a" and Secret other/keys alone`},
		},
		"overlaid as a whole": {
			"There is no mixture: the last one has all that the driver reads.",
			pair{own: map[string]string{"url": otherURL, "accountID": "x", "secretKey": "y"}, keys: map[string]string{
				"url": realURL, "accountID": "demo", "secretKey": "demo-secret", "ca": "pem",
			}, namespace: "default", swapped: true},
			"a",
			nil,
		},
		"halves of one namespace": {
			"VMs may exist that were made so.",
			pair{own: map[string]string{"url": realURL}, keys: half, namespace: "default"},
			"a",
			[]string{`"a" and both Secrets`},
		},
		"halves of one namespace, for the VM of another class": {
			"They say nothing about that VM.",
			pair{own: map[string]string{"url": realURL}, keys: half, namespace: "default"},
			"b", nil,
		},
		"halves of two namespaces": {
			"The owner of the key has not said where it may go.",
			pair{own: map[string]string{"url": realURL}, keys: half, namespace: "other"},
			"a", nil,
		},
	}
	for name, tc := range cases {
		e := harness.New(t, harness.At(start))
		d := &harness.Located{Driver: e.NewCloud().Driver(), URL: realURL}
		clouds, err := cloud.NewRegistry([]cloud.Driver{d}, e.Clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		secrets := tc.pair.objects()
		c := harness.New(t, harness.With(tc.pair.class(), secrets[0], secrets[1])).Raw
		found, err := class.Substitutes(t.Context(), c, class.Search{
			Resolve: class.New(clouds).ResolveForClusterAPI, Namespace: "default", ProviderID: "sim:///sim-1/vm-1", Own: tc.own,
		})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range found {
			if len(r.Alternatives) > 0 {
				t.Errorf("%s: an alternative has alternatives", name)
			}
			if r.Name() != `"a"` {
				names = append(names, r.Name())
			}
		}
		if !slices.Equal(names, tc.want) {
			t.Errorf("%s: got %q, want %q\nbecause: %s", name, names, tc.want, tc.reason)
		}
	}
}
