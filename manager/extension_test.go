package manager

import (
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
)

func TestExtensionFlags(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args    []string
		problem string
	}{
		"off unless asked for": {nil, ""},
		"it serves over TLS": {
			[]string{"--runtime-extension-port=9443"},
			"--runtime-extension-cert-dir: must be given",
		},
		"with what it is given": {
			[]string{"--runtime-extension-port=9443", "--runtime-extension-cert-dir=x"},
			"",
		},
		"no controllers beside it": {[]string{
			"--runtime-extension-port=9443", "--runtime-extension-cert-dir=x",
			"--controllers=mcmmachine",
		}, "process of its own"},
		"a port is a port":                     {[]string{"--runtime-extension-port=65536"}, "between 0 and 65535"},
		"a certificate alone turns nothing on": {[]string{"--runtime-extension-cert-dir=x"}, ""},
	}
	for reason, c := range cases {
		_, err := parse(c.args...)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, want %q", reason, err, c.problem)
		}
	}
}

// TestExtensionRunsAlone: no controller, so no lease either.
func TestExtensionRunsAlone(t *testing.T) {
	t.Parallel()
	o, err := parse("--runtime-extension-port=9443", "--runtime-extension-cert-dir=x")
	if err != nil {
		t.Fatal(err)
	}
	all := func(controllers.Kind) bool { return true }
	which, err := o.selected(all)
	if err != nil || len(which) > 0 || len(leasesOf(which)) > 0 {
		t.Errorf("controllers %v, leases %v, %v; want none", which, leasesOf(which), err)
	}
	lock, err := o.newLock(nil, leasesOf(which))
	if err != nil || lock != nil {
		t.Errorf("lock %v, %v; want none", lock, err)
	}
	_, err = o.selected(func(k controllers.Kind) bool { return k.Plural != "mcmmachines" })
	if err == nil || !strings.Contains(err.Error(), "mcmmachines.infrastructure.cluster.x-k8s.io") {
		t.Errorf("%v, want what is missing by name", err)
	}
}
