package main

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestSamples holds the samples to what the driver and the VMs take.
func TestSamples(t *testing.T) {
	t.Parallel()
	objects, err := cluster.Read(samples)
	if err != nil {
		t.Fatal(err)
	}
	classes := 0
	for _, o := range objects {
		switch o.GetKind() {
		case "MachineClass":
			classes++
			sampleClass(t, o)
		case "Secret":
			sampleSecret(t, o)
		}
	}
	if classes != 2 {
		t.Errorf("%d classes, want one to start with and one to roll to", classes)
	}
}

func sampleClass(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	raw, err := json.Marshal(o.Object["providerSpec"])
	if err != nil {
		t.Fatal(err)
	}
	d := sim.New(sim.Options{Clock: clock.RealClock{}, Settings: sim.DefaultSettings()}).Driver()
	c, problems := d.Parse(cloud.ClassInput{Name: o.GetName(), Spec: raw})
	if len(problems) > 0 {
		t.Errorf("%s: %v", o.GetName(), problems)
	}
	a, err := d.Open(t.Context(), c, cloud.Credentials{"accountID": []byte("demo"), "secretKey": []byte("demo-secret")})
	if err != nil {
		t.Fatal(err)
	}
	offered, err := a.Capacity(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	told, _, _ := unstructured.NestedStringMap(o.Object, "nodeTemplate", "capacity")
	for _, name := range []string{"cpu", "memory", "gpu"} {
		if told[name] != offered.Resources[name] {
			t.Errorf("%s: nodeTemplate says %s is %s, the cloud offers %s", o.GetName(), name, told[name],
				offered.Resources[name])
		}
	}
	if _, err := a.Create(t.Context(), cloud.CreateRequest{Ref: cloud.Ref{Name: "x", Class: c}, Token: "t"}); err != nil {
		t.Errorf("%s: %v", o.GetName(), err)
	}
}

func sampleSecret(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	data, _, _ := unstructured.NestedStringMap(o.Object, "stringData")
	creds := cloud.Credentials{}
	for key, value := range data {
		creds[key] = []byte(value)
	}
	if problems := sim.NewDriver(nil).CheckSecret(cloud.Class{}, creds); len(problems) > 0 {
		t.Errorf("%s: %v", o.GetName(), problems)
	}
	filled := strings.NewReplacer("<<BOOTSTRAP_TOKEN>>", "a.b", "<<MACHINE_NAME>>", "m").Replace(data["userData"])
	if b, err := readBootData([]byte(filled)); err != nil || b.NodeName != "m" || b.Token != "a.b" {
		t.Errorf("%s: a VM reads %+v, %v", o.GetName(), b, err)
	}
}
