package mcmdriver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// userDataKey is the entry of the Secret with the boot data. MCM's drivers ask for it in
// every call.
const userDataKey = "userData"

// request are the fields of a request of MCM's, by name, as JSON encodes them.
type request map[string]any

// The fields of the three forms of requests.
var (
	machineRequest = []string{"Machine", "MachineClass", "Secret"}
	classRequest   = []string{"MachineClass", "Secret"}
	volumeRequest  = []string{"PVSpecs"}
)

// response are the fields of all responses of MCM's.
type response struct {
	ProviderID, NodeName string
	Addresses            []struct{ Type, Address string }
	MachineList          map[string]string // name of the machine by providerID
	VolumeIDs            []string
}

// call is one method of the driver. The response is nil if the driver returned none,
// which it may or may not do beside an error.
type call func(ctx context.Context, in request) (*response, error)

// methods are those of the driver.
type methods struct{ create, initialize, remove, status, list, volumes call }

// method returns f with its types converted. It panics when In lacks a field.
func method[In, Out any](f func(context.Context, *In) (*Out, error), fields []string) call {
	for _, field := range fields {
		if !has[In](field) {
			panic(misfit(new(In), field))
		}
	}
	return func(ctx context.Context, in request) (*response, error) {
		typed := new(In)
		if err := convert(in, typed); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		out, failed := f(ctx, typed)
		if out == nil {
			return nil, failed
		}
		var r response
		if err := convert(out, &r); err != nil && failed == nil {
			return nil, fmt.Errorf("decode response: %w", err)
		}
		return &r, failed
	}
}

// has reports whether In encodes to an object with that field.
func has[In any](field string) bool {
	var fields map[string]json.RawMessage
	if err := convert(new(In), &fields); err != nil {
		return false
	}
	_, ok := fields[field]
	return ok
}

// convert encodes from and decodes that into to, a pointer.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// metadata are the fields of an object's metadata that MCM's drivers read.
type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
}

// class returns the fields of a request about a class; without user data they have
// a placeholder, since drivers refuse a Secret without any.
func (a *account) class(c cloud.Class, userData []byte) request {
	in, _ := c.Spec.(cloud.ClassInput)
	if len(userData) == 0 {
		userData = []byte("none")
	}
	out := request{
		"MachineClass": map[string]any{
			"metadata": metadata{Name: in.Name, Namespace: in.Namespace, Labels: in.Labels, Annotations: in.Annotations},
			"provider": a.driver.traits.Cloud.Name, "providerSpec": in.Spec,
		},
	}
	a.boot(out, userData)
	return out
}

// boot gives a request a Secret with that user data.
func (a *account) boot(in request, userData []byte) {
	secret := maps.Clone(a.secret)
	secret[userDataKey] = userData
	in["Secret"] = map[string]any{"data": secret}
}

// machine returns the fields of a request about a machine, whose node wants these
// annotations.
func (a *account) machine(r cloud.Ref, annotations map[string]string, userData []byte) request {
	out := a.class(r.Class, userData)
	m := metadata{
		Name: r.Name, Namespace: r.Class.Namespace,
		UID: r.Object.UID, Labels: r.Object.Labels, Annotations: r.Object.Annotations,
	}
	if !r.Created.IsZero() {
		created := r.Created.UTC().Truncate(time.Second)
		m.CreationTimestamp = &created
	}
	out["Machine"] = map[string]any{"metadata": m, "spec": map[string]any{
		"providerID":   r.ProviderID,
		"class":        map[string]string{"kind": "MachineClass", "name": r.Class.Name},
		"nodeTemplate": map[string]any{"metadata": map[string]any{"annotations": annotations}},
	}}
	return out
}

// volumeSpec is the spec of a persistent volume; ok is false for a plugin that none
// of MCM's drivers knows.
func volumeSpec(v cloud.Volume) (spec map[string]any, ok bool) {
	plugins := map[string][2]string{
		"kubernetes.io/aws-ebs":        {"awsElasticBlockStore", "volumeID"},
		"kubernetes.io/cinder":         {"cinder", "volumeID"},
		"kubernetes.io/vsphere-volume": {"vsphereVolume", "volumePath"},
		"kubernetes.io/gce-pd":         {"gcePersistentDisk", "pdName"},
		"kubernetes.io/azure-disk":     {"azureDisk", "diskURI"},
	}
	if v.Driver == "" {
		return nil, false
	}
	if p, inTree := plugins[v.Driver]; inTree {
		return map[string]any{p[0]: map[string]string{p[1]: v.Handle}}, true
	}
	return map[string]any{"csi": map[string]string{"driver": v.Driver, "volumeHandle": v.Handle}}, true
}
