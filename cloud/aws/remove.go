package aws

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "terminate instance"

// When it is worth looking again at what is going.
const (
	waitForVM    = 5 * time.Second
	waitForParts = 2 * time.Second
)

// Delete terminates the VMs of r and then removes what they left behind. Where
// a providerID is set it is the only VM that counts, and only its parts and
// loose ones of no other owner: other VMs of that name may be in use.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, unclassed(err)
	}
	vms, err := a.find(ctx, opDelete, s, r)
	if err != nil && cloud.CodeOf(err) != cloud.NotFound {
		return cloud.Deletion{}, err
	}
	var left []string
	for _, vm := range vms {
		if err := a.cancelRequest(ctx, vm); err != nil {
			return cloud.Deletion{}, err
		}
		if vm.gone() {
			continue
		}
		left = append(left, "vm "+vm.id)
		if err := a.end(ctx, vm); err != nil {
			return cloud.Deletion{}, err
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		return cloud.Deletion{RetryAfter: waitForVM, Remaining: left}, nil
	}
	if err := a.cancelLoose(ctx, s, r); err != nil {
		return cloud.Deletion{}, err
	}
	return a.clean(ctx, s, r)
}

// end asks for an instance to go, unless it is going.
func (a *account) end(ctx context.Context, vm resource) error {
	if vm.going() {
		return nil
	}
	refused, err := a.ender.Do(ctx, opDelete, struct{}{}, vm.id)
	if err == nil {
		err = refused[vm.id]
	}
	err = named(opDelete, err)
	if cloud.CodeOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// terminate ends instances. What EC2 refuses for one of them must not keep the
// others, so each is then asked for alone.
func (a *account) terminate(ctx context.Context, _ struct{}, ids []string) (map[string]error, error) {
	ids = unique(ids)
	_, err := ask(ctx, a, opDelete, a.client.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err == nil {
		return map[string]error{}, nil
	}
	if err.Code == cloud.Throttled || err.Code == cloud.Unavailable {
		return nil, err
	}
	if len(ids) == 1 {
		return map[string]error{ids[0]: about(err)}, nil
	}
	refused := map[string]error{}
	for _, id := range ids {
		alone, err := a.terminate(ctx, struct{}{}, []string{id})
		if err != nil {
			refused[id] = err
		} else if alone[id] != nil {
			refused[id] = alone[id]
		}
	}
	return refused, nil
}

// clean removes the volumes and interfaces that carry the tags of r and are
// not part of another VM. What the class wants to outlive its VMs stays.
func (a *account) clean(ctx context.Context, s *spec, r cloud.Ref) (cloud.Deletion, error) {
	var left []string
	for _, kind := range []cloud.Kind{cloud.KindDisk, cloud.KindInterface} {
		if s.keeps[kind] {
			continue
		}
		parts, err := a.ofName(ctx, opDelete, kind, s, r)
		if err != nil {
			return cloud.Deletion{}, err
		}
		for _, p := range parts {
			if !mayGo(p, r) {
				continue
			}
			left = append(left, string(kind)+" "+p.id)
			if p.attachedTo != "" || p.going() {
				continue // it goes, or comes loose, with its VM
			}
			if err := a.removePart(ctx, p); err != nil {
				return cloud.Deletion{}, err
			}
		}
	}
	if len(left) == 0 {
		return cloud.Deletion{Done: true}, nil
	}
	slices.Sort(left)
	return cloud.Deletion{RetryAfter: waitForParts, Remaining: left}, nil
}

// mayGo reports whether a part is one of the VM of r. A part of a VM that is there
// and is not that of r is not.
func mayGo(p resource, r cloud.Ref) bool {
	id, known := (*Driver)(nil).DecodeProviderID(r.ProviderID)
	if p.attachedTo != "" {
		return known && p.attachedTo == id
	}
	owner := p.tags[ownerTag]
	return r.ProviderID == "" || owner == "" || owner == r.OwnerID
}

// removePart deletes a volume or an interface that is loose.
func (a *account) removePart(ctx context.Context, p resource) error {
	var err *cloud.Error
	if p.kind == cloud.KindDisk {
		_, err = ask(ctx, a, "delete volume", a.client.DeleteVolume, &ec2.DeleteVolumeInput{VolumeId: &p.id})
	} else {
		_, err = ask(ctx, a, "delete interface", a.client.DeleteNetworkInterface,
			&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &p.id})
	}
	if err == nil || err.Reason == "InvalidVolume.NotFound" || err.Reason == "InvalidNetworkInterfaceID.NotFound" {
		return nil
	}
	return about(err)
}
