package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// release is what a version left behind, with placeholders for the addresses of
// the cluster and the cloud that it ran on.
type release struct {
	objects []*unstructured.Unstructured // owners first
	cloud   []byte                       // the lines of the simulated cloud's state file
}

// The files of a record.
const (
	objectsFile = "objects.yaml"
	cloudFile   = "cloud.jsonl"
)

// What stands in a record for what is different in every run.
const (
	cloudPlaceholder      = "http://cloud.invalid"
	serverPlaceholder     = "https://cluster.invalid"
	caPlaceholder         = "Y2x1c3Rlci5pbnZhbGlk" // base64, as what it stands for
	kubeconfigPlaceholder = "kubeconfig of cluster.invalid"
	tokenPlaceholder      = "aaaaaa.0123456789abcdef"
)

var (
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	isKubeconfig   = regexp.MustCompile(`"?kind"?: *"?Config\b`)
	timestamp      = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	recordedAt     = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// aged returns what moves all times in a text so that now is recordedAt: no
// machine on which a record is restored may have a clock that lags behind it.
func aged(now time.Time) func([]byte) []byte {
	by := recordedAt.Sub(now.Truncate(time.Second))
	return func(text []byte) []byte {
		return timestamp.ReplaceAllFunc(text, func(old []byte) []byte {
			at, err := time.Parse(time.RFC3339Nano, string(old))
			if err != nil {
				return old
			}
			return []byte(at.Add(by).Format(time.RFC3339Nano))
		})
	}
}

// A kind that records have, and the plural name of its resource.
type kind struct {
	schema.GroupVersionKind
	resource    string
	inNamespace bool
}

// kinds are in the order in which objects own each other: the garbage collector
// deletes what it sees before its owner.
func kinds() []kind {
	of := func(v schema.GroupVersion, name, resource string) kind { return kind{v.WithKind(name), resource, true} }
	native, core := machinev1.GroupVersion, schema.GroupVersion{Version: "v1"}
	return []kind{
		of(native, machinev1.MachineClassKind, "machineclasses"), of(native, machinev1.MachineDeploymentKind,
			"machinedeployments"),
		of(native, machinev1.MachineSetKind, "machinesets"), of(native, machinev1.MachineKind, "machines"),
		of(clusterv1.GroupVersion, "Cluster", "clusters"), of(infrav1.GroupVersion, "MCMCluster", "mcmclusters"),
		of(controlplanev1.GroupVersion, "MCMExternalControlPlane", "mcmexternalcontrolplanes"),
		of(clusterv1.GroupVersion, "Machine", "machines"), of(infrav1.GroupVersion, "MCMMachine", "mcmmachines"),
		of(bootstrapv1.GroupVersion, "MCMConfig", "mcmconfigs"),
		of(core, "Secret", "secrets"),
		{core.WithKind("Node"), "nodes", false},
	}
}

// leftBehind reads the objects and the cloud of a stack whose manager is stopped.
// state is the cloud's state file.
func leftBehind(ctx context.Context, s *stack.Stack, state string) (*release, error) {
	r := &release{}
	for _, k := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		var options []client.ListOption
		if k.inNamespace {
			options = append(options, client.InNamespace(stack.Namespace))
		}
		if err := s.Client.List(ctx, list, options...); err != nil {
			return nil, err
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		for i := range list.Items {
			o := &list.Items[i]
			o.SetManagedFields(nil)
			o.SetResourceVersion("")
			r.objects = append(r.objects, o)
		}
	}
	text, err := os.ReadFile(state)
	if err != nil {
		return nil, err
	}
	if r.cloud, err = shortest(text); err != nil {
		return nil, err
	}
	addresses := strings.NewReplacer(
		s.Cloud.Endpoint, cloudPlaceholder, s.Cluster.URL(), serverPlaceholder,
		base64.StdEncoding.EncodeToString(s.Cluster.CA()), caPlaceholder,
	)
	return r, r.replace(func(text string) string {
		if isKubeconfig.MatchString(text) {
			return kubeconfigPlaceholder // it has keys
		}
		return bootstrapToken.ReplaceAllString(addresses.Replace(text), tokenPlaceholder)
	})
}

// shortest returns a state file without what later lines of it changed.
func shortest(lines []byte) ([]byte, error) {
	c := sim.New(sim.Options{Clock: clock.RealClock{}, Settings: sim.DefaultSettings()})
	if err := c.Replay(bytes.NewReader(lines)); err != nil {
		return nil, err
	}
	return c.Lines(), nil
}

// replace changes the addresses in classes, in Secrets and in the user data that
// VMs were made with.
func (r *release) replace(change func(string) string) error {
	for _, o := range r.objects {
		switch o.GetKind() {
		case machinev1.MachineClassKind:
			if err := changeNested(o, change, "providerSpec", "endpoint"); err != nil {
				return err
			}
		case "Secret":
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				return err
			}
			for key, value := range data {
				data[key] = inBase64(change)(value)
			}
			if err := unstructured.SetNestedStringMap(o.Object, data, "data"); err != nil {
				return err
			}
		}
	}
	var out []byte
	for line := range bytes.Lines(r.cloud) {
		var entry map[string]json.RawMessage
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("read %s: %w", cloudFile, err)
		}
		if data, has := entry["userData"]; has {
			text, err := json.Marshal(inBase64(change)(strings.Trim(string(data), `"`)))
			if err != nil {
				return err
			}
			entry["userData"] = text
		}
		text, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		out = append(append(out, text...), '\n')
	}
	r.cloud = out
	return nil
}

func changeNested(o *unstructured.Unstructured, change func(string) string, path ...string) error {
	value, found, err := unstructured.NestedString(o.Object, path...)
	if err != nil || !found {
		return err
	}
	return unstructured.SetNestedField(o.Object, change(value), path...)
}

// inBase64 applies a change to what a text encodes; one that is no base64 stays.
func inBase64(change func(string) string) func(string) string {
	return func(encoded string) string {
		text, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return encoded
		}
		return base64.StdEncoding.EncodeToString([]byte(change(string(text))))
	}
}

// write makes a record's files.
func (r *release) write(dir string) error {
	older := aged(time.Now())
	var text bytes.Buffer
	for _, o := range r.objects {
		one, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "---\n%s", one)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, objectsFile), older(text.Bytes()), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, cloudFile), older(r.cloud), 0o600)
}

// readRelease reads a record.
func readRelease(dir string) (*release, error) {
	objects, err := cluster.Read(filepath.Join(dir, objectsFile))
	if err != nil {
		return nil, err
	}
	lines, err := os.ReadFile(filepath.Join(dir, cloudFile))
	return &release{objects: objects, cloud: lines}, err
}
