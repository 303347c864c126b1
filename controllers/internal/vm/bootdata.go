package vm

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// BootDataOwner is an Owner that keeps a record of whether the cloud may keep boot data of
// its VM.
type BootDataOwner interface {
	Owner
	// KeepsBootData is the record.
	KeepsBootData() bool
	// ForgetBootData removes the record. It fails on a stale object.
	ForgetBootData(ctx context.Context) error
}

// controlPlaneOwner is an Owner that knows of which VMs the boot data has the keys of a
// cluster's certificate authorities.
type controlPlaneOwner interface {
	// ControlPlane reports whether the VM is one of a control plane.
	ControlPlane() bool
}

// KeepsBootData reports whether the cloud keeps the boot data of VMs of a class outside of
// them. That has to be recorded before such a VM is created.
func KeepsBootData(r class.Resolved) bool {
	keeper, ok := r.Driver.(cloud.BootDataKeeper)
	if !ok {
		return false
	}
	_, private := keeper.PrivateBootData(r.Class)
	return private
}

// RemoveBootData removes the boot data that the cloud keeps of the owner's VM, whose node has
// joined, and then the record, without which it does nothing. Removing the VM does the same.
// since is when it was first found that it could not be removed; zero is now.
func (e *Engine) RemoveBootData(ctx context.Context, o BootDataOwner, since time.Time) (Upkeep, error) {
	if !o.KeepsBootData() {
		return Upkeep{None: true}, nil
	}
	err := e.removeBootData(ctx, o)
	failures := e.countFailures(o.Ref().OwnerID, err, func(n *memory) *int { return &n.bootDataFailures })
	if err == nil {
		return Upkeep{None: true}, nil
	}
	return e.failed(err, failures, since, func(err error) string {
		return fmt.Sprintf("The node has joined, and the boot data that the cloud keeps of its VM could not be removed: "+
			"%s; correct the cause (retried automatically)", err)
	})
}

func (e *Engine) removeBootData(ctx context.Context, o BootDataOwner) error {
	account, resolved, err := e.Account(ctx, o)
	if err != nil {
		return err
	}
	ref := refOf(o, resolved)
	if err := cloud.RemoveBootData(ctx, account, ref); err != nil {
		return err
	}
	if err := o.ForgetBootData(ctx); err != nil {
		return fmt.Errorf("record that boot data was removed: %w", err)
	}
	loggerOf(ctx, ref).Info("Removed boot data of VM whose node has joined", "providerID", ref.ProviderID)
	return nil
}

// checkBootData refuses boot data with private keys for a VM of a control plane of Cluster
// API, where the cloud could keep it private and the class does not ask for that: whoever
// may describe VMs could sign certificates for the cluster.
func checkBootData(o Owner, resolved class.Resolved, data []byte) error {
	keeper, ok := resolved.Driver.(cloud.BootDataKeeper)
	machine, knows := o.(controlPlaneOwner)
	if !ok || !knows || !machine.ControlPlane() || resolved.Object == nil ||
		resolved.Object.Annotations[machinev1.AllowPlainBootDataAnnotation] == "true" {
		return nil
	}
	field, private := keeper.PrivateBootData(resolved.Class)
	if private || !bootstrap.HasPrivateKey(data) {
		return nil
	}
	message := fmt.Sprintf("is missing, and the boot data of this control plane machine has private keys, which whoever "+
		"may describe VMs could read; set it, or accept that by annotation %s: \"true\" on MachineClass %s",
		machinev1.AllowPlainBootDataAnnotation, resolved.Object.Name)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: infrav1.ReasonPlainBootData,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + " " + message),
	}
}
