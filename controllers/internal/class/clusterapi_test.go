package class_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestSecretsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"accountID": "demo", "secretKey": "demo-secret"}
	cases := map[string]struct {
		reason  string
		allowed string
		ok      bool
	}{
		"Silent":  {"Whoever writes classes must not reach the Secrets of others.", "", false},
		"Other":   {"Another namespace is allowed.", "prod", false},
		"Listed":  {"This one is among those allowed.", "prod, default", true},
		"All":     {"All are allowed.", "*", true},
		"Partial": {"Names match as a whole.", "default-2,defaul", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := secret("other", "keys", keys)
			if tc.allowed != "" {
				s.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: tc.allowed}
			}
			c := harness.New(t, harness.With(machineClass(), s,
				secret("default", "boot", nil))).Raw
			r, err := resolver(t).ResolveForClusterAPI(t.Context(), c, "default", "a")
			if err != nil {
				t.Fatal(err)
			}
			refused := r.Err(cloud.BlocksAll)
			if (refused == nil) != tc.ok {
				t.Fatalf("%v: %s", refused, tc.reason)
			}
			_, accountErr := r.Account(t.Context())
			if (accountErr == nil) != tc.ok {
				t.Errorf("account: %v: %s", accountErr, tc.reason)
			}
			if tc.ok {
				return
			}
			e, _ := errors.AsType[*cloud.Error](refused)
			if e.Reason != infrav1.ReasonSecretNotAllowed || len(r.Credentials["secretKey"]) > 0 ||
				!strings.Contains(refused.Error(), "credentialsSecretRef: Secret other/keys") ||
				!strings.Contains(refused.Error(), machinev1.AllowedNamespacesAnnotation+"=default") {
				t.Errorf("reason %s, %v; want field and annotation named", e.Reason, refused)
			}
			if native, err := resolver(t).Resolve(t.Context(), c, "default", "a"); err != nil ||
				native.Err(cloud.BlocksAll) != nil {
				t.Errorf("the native API keeps MCM's rule: %v, %v", err, native.Problems)
			}
		})
	}
}

// legacyDriver is a driver that keeps no owner ids.
type legacyDriver struct{ cloud.Driver }

func (d legacyDriver) Traits() cloud.Traits {
	t := d.Driver.Traits()
	t.Legacy = true
	return t
}

// TestLegacyDriver: Cluster API takes no class of a driver that keeps no owner of a VM.
func TestLegacyDriver(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(start)
	clouds, err := cloud.NewRegistry([]cloud.Driver{legacyDriver{sim.NewDriver(nil)}}, clk.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := harness.New(t, harness.With(machineClass(), secret("default", "boot", nil))).Raw
	r := class.New(clouds)
	refused, err := r.ResolveForClusterAPI(t.Context(), c, "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	_, accountErr := refused.Account(t.Context())
	for _, err := range []error{refused.Err(cloud.BlocksAll), accountErr} {
		if err == nil || !strings.Contains(err.Error(), "was written for Machine Controller Manager") {
			t.Errorf("Cluster API takes a class of a legacy driver: %v", err)
		}
	}
	native, err := r.Resolve(t.Context(), c, "default", "a")
	if text := fmt.Sprint(native.Err(cloud.BlocksAll)); err != nil || strings.Contains(text, "written for") {
		t.Errorf("the native API refuses a class of a legacy driver: %v, %s", err, text)
	}
}

func TestClassOfClusterAPI(t *testing.T) {
	t.Parallel()
	held := machineClass(func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.InUseFinalizer} })
	cases := map[string]struct {
		object    client.Object
		protected bool
		says      string
	}{
		"Held":   {held, true, ""},
		"Native": {machineClass(), false, ""},
		"None":   {secret("default", "x", nil), false, `spec.machineClassRef.name: there is no MachineClass "a"`},
	}
	for name, tc := range cases {
		c := harness.New(t, harness.With(tc.object)).Raw
		var r class.Resolved
		r, err := resolver(t).ResolveForClusterAPI(t.Context(), c, "default", "a")
		if err != nil {
			t.Fatal(err)
		}
		if r.Protected != tc.protected {
			t.Errorf("%s: protected %v", name, r.Protected)
		}
		if err := r.Err(cloud.BlocksAll); tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
