package gcp

import (
	"context"
	"maps"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Reboot resets the VM of r, or starts it if it is off.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	const op = "reboot VM"
	i, err := a.wanted(ctx, op, r)
	if err != nil {
		return err
	}
	action := ""
	switch i.Status {
	case "RUNNING", "REPAIRING":
		action = "reset"
	case "TERMINATED", "STOPPED":
		action = "start"
	case "SUSPENDED":
		action = "resume"
	default:
		return cloud.Errorf(cloud.Unavailable, op, cloud.ReasonVMBusy,
			"the instance is %s; it is rebooted afterwards", i.Status)
	}
	if e := a.client.change(ctx, op, i.place(), action, nil); e != nil {
		return driverkit.Busy(driverkit.Restrict(e, cloud.NotFound, cloud.Invalid, cloud.Exhausted), reasonBusy)
	}
	return nil
}

// SetTags gives the VM of r the labels of its class. Disks have labels of their own in the class.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	const op = "set labels"
	i, err := a.wanted(ctx, op, r)
	if err != nil {
		return err
	}
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return err
	}
	labels := maps.Clone(i.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range codec.Obsolete(obsolete, s.Labels) {
		delete(labels, key)
	}
	maps.Copy(labels, codec.UserTags(s.Labels))
	if maps.Equal(labels, i.Labels) {
		return nil
	}
	e := a.client.change(ctx, op, i.place(), "setLabels", map[string]any{
		"labels": labels, "labelFingerprint": i.LabelFingerprint,
	})
	if e != nil {
		return driverkit.Restrict(e, cloud.NotFound, cloud.Invalid)
	}
	return nil
}
