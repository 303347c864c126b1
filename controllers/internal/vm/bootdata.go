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

// keepsBootData reports whether the cloud keeps the boot data of VMs of a class outside of
// them. That has to be recorded before such a VM is created.
func keepsBootData(r class.Resolved) bool {
	keeper, ok := r.Driver.(cloud.BootDataKeeper)
	if !ok {
		return false
	}
	_, private := keeper.PrivateBootData(r.Class)
	return private
}

// RemoveBootData removes the boot data that the cloud keeps of the machine's VM, whose node has
// joined, and then the record, without which it does nothing. Removing the VM does the same.
// since is when it was first found that it could not be removed; zero is now.
func (e *Engine) RemoveBootData(ctx context.Context, m *Machine, since time.Time) (Upkeep, error) {
	if !m.State.BootData {
		return Upkeep{None: true}, nil
	}
	err := e.removeBootData(ctx, m)
	failures := e.countFailures(m.Ref().OwnerID, err, func(n *memory) *int { return &n.bootDataFailures })
	if err == nil {
		return Upkeep{None: true}, nil
	}
	return e.failed(err, failures, since, func(err error) string {
		return fmt.Sprintf("The node has joined, and the boot data that the cloud keeps of its VM could not be removed: "+
			"%s; correct the cause (retried automatically)", err)
	})
}

func (e *Engine) removeBootData(ctx context.Context, m *Machine) error {
	account, err := e.Account(ctx, m)
	if err != nil {
		return err
	}
	ref := m.Ref()
	if err := cloud.RemoveBootData(ctx, account, ref); err != nil {
		return err
	}
	if err := m.save(ctx, func(s *State) { s.BootData = false }); err != nil {
		return fmt.Errorf("record that boot data was removed: %w", err)
	}
	loggerOf(ctx, ref).Info("Removed boot data of VM whose node has joined", "providerID", ref.ProviderID)
	return nil
}

// checkBootData refuses boot data with private keys for a VM of a control plane of Cluster
// API, where the cloud could keep it private and the class does not ask for that: whoever
// may describe VMs could sign certificates for the cluster.
func checkBootData(m *Machine, data []byte) error {
	keeper, ok := m.Class.Driver.(cloud.BootDataKeeper)
	if !ok || !m.ControlPlane || m.Class.Object == nil ||
		m.Class.Object.Annotations[machinev1.AllowPlainBootDataAnnotation] == "true" {
		return nil
	}
	field, private := keeper.PrivateBootData(m.Class.Class)
	if private || !bootstrap.HasPrivateKey(data) {
		return nil
	}
	message := fmt.Sprintf("is missing, and the boot data of this control plane machine has private keys, which whoever "+
		"may describe VMs could read; set it, or accept that by annotation %s: \"true\" on MachineClass %s",
		machinev1.AllowPlainBootDataAnnotation, m.Class.Object.Name)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: infrav1.ReasonPlainBootData,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + " " + message),
	}
}
