package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
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
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	return driverkit.Remove(ctx, driverkit.RemoveStep{
		RetryAfter: waitForVM,
		Find:       func(ctx context.Context) ([]driverkit.Part, error) { return a.vms(ctx, s, r) },
	}, driverkit.RemoveStep{
		RetryAfter: waitForParts,
		Find:       func(ctx context.Context) ([]driverkit.Part, error) { return a.parts(ctx, s, r) },
	}, driverkit.RemoveStep{
		RetryAfter: waitForParts,
		Find:       func(ctx context.Context) ([]driverkit.Part, error) { return a.bootDataParts(ctx, opDelete, s, r) },
	})
}

const opBootData = "remove boot data"

// RemoveBootData deletes the private boot data of r; without any, or where the class keeps
// none, it does nothing. An instance that has not fetched its boot data yet never can.
func (a *account) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	s, err := driverkit.SpecOf[*spec](opBootData, r.Class)
	if err != nil {
		return driverkit.Restrict(err)
	}
	_, err = driverkit.Remove(ctx, driverkit.RemoveStep{
		Find: func(ctx context.Context) ([]driverkit.Part, error) { return a.bootDataParts(ctx, opBootData, s, r) },
	})
	return err
}

// bootDataParts returns the private boot data of r, of all attempts.
func (a *account) bootDataParts(ctx context.Context, op string, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	store, private := a.bootData(s)
	if !private {
		return nil, nil
	}
	var all []driverkit.Part
	for key, err := range store.Of(ctx, op, r) {
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		all = append(all, driverkit.Part{
			Kind: bootdata.Kind, ID: key,
			Remove: func(ctx context.Context) (bool, error) { err := store.Delete(ctx, op, key); return err == nil, err },
		})
	}
	return all, nil
}

// vms returns the VMs of r that are to be terminated. Spot requests that would replace
// them are canceled here.
func (a *account) vms(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	found, err := a.find(ctx, opDelete, s, r)
	if err != nil && cloud.CodeOf(err) != cloud.NotFound {
		return nil, err
	}
	var all []driverkit.Part
	for _, vm := range found {
		if err := a.cancelRequest(ctx, vm); err != nil {
			return nil, err
		}
		if !vm.gone() && !vm.going() && keepsParts(*vm.instance) { // EC2 shows that until they are loose
			parts, err := a.partsOf(ctx, opDelete, s, r, vm.id)
			if err == nil {
				err = a.record(ctx, opDelete, parts)
			}
			if err != nil {
				return nil, driverkit.Restrict(err)
			}
		}
		if !vm.gone() {
			all = append(all, driverkit.Part{Kind: vm.kind, ID: vm.id, Remove: func(ctx context.Context) (bool, error) {
				return false, a.end(ctx, vm)
			}})
		}
	}
	return all, nil
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
	if cloud.CodeOf(err) == cloud.NotFound {
		return nil
	}
	return driverkit.WithOp(opDelete, err)
}

// terminate ends instances. What EC2 refuses for one of them must not keep the
// others, so each is then asked for alone.
func (a *account) terminate(ctx context.Context, _ struct{}, ids []string) (map[string]error, error) {
	ids = unique(ids)
	_, err := ask(ctx, a, opDelete, a.client.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: ids})
	switch {
	case err == nil:
		return map[string]error{}, nil
	case err.Code == cloud.Throttled || err.Code == cloud.Unavailable:
		return nil, err
	case len(ids) == 1:
		return map[string]error{ids[0]: reading(err)}, nil
	}
	refused := map[string]error{}
	for _, id := range ids {
		alone, err := a.terminate(ctx, struct{}{}, []string{id})
		if err == nil {
			err = alone[id]
		}
		if err != nil {
			refused[id] = err
		}
	}
	return refused, nil
}

// parts returns the volumes and interfaces that carry the tags of r, are not part of another
// VM, and go with theirs: not those that were to stay when they were made, or of which nothing
// shows it.
func (a *account) parts(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	if err := a.cancelLoose(ctx, s, r); err != nil {
		return nil, err
	}
	var all []driverkit.Part
	for _, kind := range []cloud.Kind{cloud.KindDisk, cloud.KindInterface} {
		found, err := a.ofName(ctx, opDelete, kind, s, r)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !mayGo(p, r) || !p.retention.MayGo() {
				continue
			}
			part := driverkit.Part{Kind: kind, ID: p.id}
			if p.attachedTo == "" && !p.going() { // else it goes, or comes loose, with its VM
				part.Remove = func(ctx context.Context) (bool, error) { return false, a.removePart(ctx, p) }
			}
			all = append(all, part)
		}
	}
	return all, nil
}

// mayGo reports whether a part is one of the VM of r, and of no other VM that is there.
func mayGo(p resource, r cloud.Ref) bool {
	if p.attachedTo != "" {
		id, known := decodeProviderID(r.ProviderID)
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
	if err == nil || err.Reason == "InvalidVolume.NotFound" || err.Reason == codeInterfaceNotFound {
		return nil
	}
	return reading(err)
}
