// Package legacy is a driver as it was written for Machine Controller Manager (MCM), for
// the cloud in package memory. It has never heard of this repository but for NewDriver.
package legacy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"example.com/outside/mcm"
	"example.com/outside/memory"
)

const prefix = "memory:///"

// UIDTag is the tag of a VM with the UID of its Machine.
const UIDTag = "machine-uid"

// Driver is the driver.
type Driver struct{ HTTP *http.Client }

var _ mcm.Driver = &Driver{}

// open returns a client with what every call needs. As MCM's drivers do, it asks for user data.
func (d *Driver) open(c *mcm.MachineClass, s *corev1.Secret) (memory.Client, *memory.Spec, error) {
	spec := &memory.Spec{}
	if err := json.Unmarshal(c.ProviderSpec.Raw, spec); err != nil {
		return memory.Client{}, nil, mcm.Errorf(mcm.Internal, "%v", err)
	}
	key := strings.TrimSpace(string(s.Data["key"]))
	if c.Provider != Provider || key == "" || len(s.Data["userData"]) == 0 {
		return memory.Client{}, nil, mcm.Errorf(mcm.InvalidArgument, "provider %q, or the Secret, is not right", c.Provider)
	}
	return memory.Client{HTTP: d.HTTP, URL: spec.URL, Key: key}, spec, nil
}

// CreateMachine makes a VM.
func (d *Driver) CreateMachine(ctx context.Context, r *mcm.CreateMachineRequest) (*mcm.CreateMachineResponse, error) {
	c, spec, err := d.open(r.MachineClass, r.Secret)
	if err != nil {
		return nil, err
	}
	tags := map[string]string{"cluster": spec.Cluster, "role": spec.Role, UIDTag: string(r.Machine.UID)}
	maps.Copy(tags, r.Machine.Spec.NodeTemplateSpec.Annotations)
	vm, err := c.Create(ctx, memory.VM{
		Name: r.Machine.Name, Zone: spec.Zone, Type: spec.Type, Tags: tags, UserData: r.Secret.Data["userData"],
	})
	if err != nil {
		return nil, status(err)
	}
	return &mcm.CreateMachineResponse{ProviderID: prefix + vm.ID, NodeName: vm.Name}, nil
}

// InitializeMachine is not needed.
func (*Driver) InitializeMachine(context.Context, *mcm.InitializeMachineRequest) (*mcm.InitializeMachineResponse, error) {
	return nil, mcm.Errorf(mcm.Unimplemented, "there is nothing to initialize")
}

// DeleteMachine deletes the VM.
func (d *Driver) DeleteMachine(ctx context.Context, r *mcm.DeleteMachineRequest) (*mcm.DeleteMachineResponse, error) {
	c, spec, err := d.open(r.MachineClass, r.Secret)
	if err != nil {
		return nil, err
	}
	vm, err := d.find(ctx, c, spec, r.Machine)
	if err != nil {
		return nil, err
	}
	if err := c.Delete(ctx, vm.ID); err != nil {
		return nil, status(err)
	}
	return &mcm.DeleteMachineResponse{}, nil
}

// GetMachineStatus looks the VM up.
func (d *Driver) GetMachineStatus(ctx context.Context, r *mcm.GetMachineStatusRequest) (*mcm.GetMachineStatusResponse,
	error,
) {
	c, spec, err := d.open(r.MachineClass, r.Secret)
	if err != nil {
		return nil, err
	}
	vm, err := d.find(ctx, c, spec, r.Machine)
	if err != nil {
		return nil, err
	}
	return &mcm.GetMachineStatusResponse{
		ProviderID: prefix + vm.ID, NodeName: vm.Name,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}, nil
}

// find returns the VM of a machine, by providerID or by name.
func (d *Driver) find(ctx context.Context, c memory.Client, spec *memory.Spec, m *mcm.Machine) (memory.VM, error) {
	if id := strings.TrimPrefix(m.Spec.ProviderID, prefix); id != "" {
		vm, err := c.Show(ctx, id)
		return vm, status(err)
	}
	all, err := c.List(ctx, spec, m.Name)
	switch {
	case err != nil:
		return memory.VM{}, status(err)
	case len(all) == 0:
		return memory.VM{}, mcm.Errorf(mcm.NotFound, "there is no VM [%s]", m.Name)
	case len(all) > 1:
		return memory.VM{}, mcm.Errorf(mcm.Internal, "%d VMs are named [%s]", len(all), m.Name)
	}
	return all[0], nil
}

// ListMachines lists the VMs of the class's cluster and role.
func (d *Driver) ListMachines(ctx context.Context, r *mcm.ListMachinesRequest) (*mcm.ListMachinesResponse, error) {
	c, spec, err := d.open(r.MachineClass, r.Secret)
	if err != nil {
		return nil, err
	}
	all, err := c.List(ctx, spec, "")
	if err != nil {
		return nil, status(err)
	}
	found := map[string]string{}
	for _, vm := range all {
		found[prefix+vm.ID] = vm.Name
	}
	return &mcm.ListMachinesResponse{MachineList: found}, nil
}

// GetVolumeIDs returns the handles of the cloud's own volumes.
func (*Driver) GetVolumeIDs(_ context.Context, r *mcm.GetVolumeIDsRequest) (*mcm.GetVolumeIDsResponse, error) {
	var ids []string
	for _, pv := range r.PVSpecs {
		if pv.CSI != nil && pv.CSI.Driver == "csi.memory.example" {
			ids = append(ids, pv.CSI.VolumeHandle)
		}
	}
	return &mcm.GetVolumeIDsResponse{VolumeIDs: ids}, nil
}

// status is an error of the cloud with MCM's code; nil stays nil.
func status(err error) error {
	if err == nil {
		return nil
	}
	code := mcm.Internal
	e, ok := errors.AsType[*memory.APIError](err)
	if ok {
		code = cmp.Or(map[int]mcm.Code{
			0: mcm.Unavailable, http.StatusServiceUnavailable: mcm.Unavailable, http.StatusUnauthorized: mcm.Unauthenticated,
			http.StatusNotFound: mcm.NotFound, http.StatusConflict: mcm.ResourceExhausted,
			http.StatusBadRequest: mcm.InvalidArgument,
		}[e.Status], mcm.Internal)
	}
	return fmt.Errorf("[memory] %w", mcm.Errorf(code, "%v", err))
}
