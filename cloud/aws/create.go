package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "run instance"

// Create makes the VM of r by one RunInstances under r.Token, which returns the
// same instance however often it is repeated, and finishes its interfaces.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := checkRequest(s, r); err != nil {
		return cloud.VM{}, err
	}
	t, err := a.launch(ctx, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	wait, err := a.finish(ctx, s, r, t)
	if err != nil {
		return cloud.VM{}, err
	}
	vm := a.vmOf(t)
	vm.RetryAfter = wait
	return vm, nil
}

// checkRequest refuses what EC2 would refuse, before anything is made.
func checkRequest(s *spec, r cloud.CreateRequest) error {
	_, wrong := s.placementOf(r.Annotations)
	_, tooLong := driverkit.TagCodec{Limits: tagLimits}.Encode(r.Tags)
	problems := slices.Concat(s.Problems, wrong, r.Problems(nameLimits, userDataMax), tooLong,
		driverkit.TooManyTags("tags", s.tags(r), tagLimits))
	if r.Token == "" && r.ProviderID == "" {
		return cloud.Errorf(cloud.Invalid, opCreate, "TokenMissing", "the idempotency token is missing")
	}
	return cloud.Worst(opCreate, problems, cloud.BlocksCreate)
}

// launch returns the VM of r and makes it unless its id is known already.
func (a *account) launch(ctx context.Context, s *spec, r cloud.CreateRequest) (resource, error) {
	if r.ProviderID != "" {
		return a.known(ctx, s, r)
	}
	if err := a.checkZone(ctx, s, r); err != nil {
		return resource{}, err
	}
	in, err := a.input(ctx, s, r)
	if err != nil {
		return resource{}, err
	}
	t, failed := a.run(ctx, in)
	if failed != nil {
		return resource{}, a.refused(ctx, s, r, failed)
	}
	if t.gone() || t.going() {
		// Told once: EC2 never makes another VM under this token.
		if err := a.failedLaunch(ctx, s, r, t); err != nil && a.now().Sub(t.made) < settleTime {
			return resource{}, err
		}
		vm := a.vmOf(t)
		return resource{}, cloud.Errorf(cloud.TokenUsed, opCreate, vm.Reason, "instance %s of this attempt is %s: %s", t.id,
			t.state, vm.Message)
	}
	a.fresh.Put(t.id, t)
	return t, nil
}

// run returns the instance of a launch, which EC2 makes once for its token.
func (a *account) run(ctx context.Context, in *ec2.RunInstancesInput) (resource, *cloud.Error) {
	token, subnet := awssdk.ToString(in.ClientToken), awssdk.ToString(in.NetworkInterfaces[0].SubnetId)
	if before, sent := a.sent.Known(token); sent && before != subnet {
		return resource{}, cloud.Errorf(cloud.TokenUsed, opCreate, "SubnetChanged",
			"this attempt was sent for another subnet than %s, and EC2 may have made an instance there", subnet)
	}
	out, err := ask(ctx, a, opCreate, a.client.RunInstances, in)
	a.note(token, subnet, err)
	if err != nil {
		return resource{}, err
	}
	if len(out.Instances) != 1 {
		return resource{}, cloud.Errorf(cloud.Unknown, opCreate, "NotOneInstance", "EC2 answers with %d instances, not one",
			len(out.Instances))
	}
	a.learn(out.Instances[0])
	return fromInstance(out.Instances[0]), nil
}

// note remembers to which subnet a launch was sent whose outcome is unknown. An answer that
// EC2 gives before it looks at the token, such as a throttled or denied call, shows nothing
// about an earlier one, so what is known of that stays.
func (a *account) note(token, subnet string, err *cloud.Error) {
	if err == nil {
		a.sent.Forget(token)
		return
	}
	switch err.Code {
	case cloud.Unavailable, cloud.Unknown:
		a.sent.Put(token, subnet)
	case cloud.Exhausted, cloud.Invalid, cloud.TokenUsed:
		a.sent.Forget(token)
	case cloud.Throttled, cloud.Denied, cloud.NotFound:
	}
}

// known returns the VM whose id stands in r, also when it is terminated. It never
// makes another.
func (a *account) known(ctx context.Context, s *spec, r cloud.CreateRequest) (resource, error) {
	found, err := a.find(ctx, opCreate, s, r.Ref)
	if err != nil {
		return resource{}, err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	id, _ := decodeProviderID(r.ProviderID)
	if t, ok := a.fresh.Known(id); ok && s.owns(t, r.Ref) {
		return t, nil
	}
	return resource{}, cloud.Errorf(cloud.NotFound, opCreate, codeInstanceNotFound, "EC2 does not show the instance of %s",
		r.ProviderID)
}

// refused returns the error of a creation with what is exhausted.
func (a *account) refused(ctx context.Context, s *spec, r cloud.CreateRequest, e *cloud.Error) error {
	switch e.Code {
	case cloud.NotFound: // of something else than this VM
		e.Code = cloud.Unavailable
	case cloud.Invalid:
		const profileShows = time.Minute // so long may a new profile stay unknown to EC2
		if strings.Contains(e.Err.Error(), "Invalid IAM Instance Profile") && a.now().Sub(r.Created) < profileShows {
			e.Code = cloud.Unavailable
		}
	case cloud.Exhausted:
		e.Offering = a.offering(ctx, s, r, driverkit.ScopeOf(e))
	case cloud.Unknown, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}

// offering returns what of the class is exhausted. It leaves out a zone that cannot be
// had: the call that needs the subnet says what is wrong with it.
func (a *account) offering(ctx context.Context, s *spec, r cloud.CreateRequest, of driverkit.Scope) *cloud.Offering {
	o := cloud.Offering{Region: s.Region, InstanceType: s.MachineType, CapacityType: s.capacityType()}
	if o.Zone, _ = s.wantedZone(r); of == driverkit.ScopeZone && o.Zone == "" && s.NetworkInterfaces[0].SubnetID != "" {
		o.Zone, _ = a.zoneOf(ctx, s.NetworkInterfaces[0].SubnetID)
	}
	return of.Of(o)
}

// capacityType returns the market on which the class buys.
func (s *spec) capacityType() string {
	switch {
	case s.MarketOptions != nil:
		return s.MarketOptions.MarketType
	case s.SpotPrice != nil:
		return string(types.MarketTypeSpot)
	}
	return string(types.MarketTypeOnDemand)
}

// input returns what EC2 is asked for. It is the same each time for the same
// request: EC2 compares it under one token.
func (a *account) input(ctx context.Context, s *spec, r cloud.CreateRequest) (*ec2.RunInstancesInput, error) {
	devices, err := a.devices(ctx, s)
	if err != nil {
		return nil, err
	}
	in := &ec2.RunInstancesInput{
		ClientToken: awssdk.String(r.Token), MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1),
		ImageId: &s.AMI, InstanceType: types.InstanceType(s.MachineType), KeyName: optional(s.KeyName),
		IamInstanceProfile:  &types.IamInstanceProfileSpecification{Name: set(s.IAM.Name), Arn: set(s.IAM.ARN)},
		BlockDeviceMappings: devices, NetworkInterfaces: s.interfaces(r), TagSpecifications: s.tagSpecs(r),
		InstanceMarketOptions: s.market(), CapacityReservationSpecification: s.reservation(),
		Placement: s.place(r), MetadataOptions: s.metadata(), CpuOptions: s.cpu(),
	}
	userData, err := a.userData(ctx, s, r)
	if err != nil {
		return nil, err
	}
	if len(userData) > 0 {
		in.UserData = awssdk.String(base64.StdEncoding.EncodeToString(userData))
	}
	if s.EBSOptimized {
		in.EbsOptimized = awssdk.Bool(true)
	}
	if s.Monitoring {
		in.Monitoring = &types.RunInstancesMonitoringEnabled{Enabled: awssdk.Bool(true)}
	}
	return in, nil
}

// set returns nil for an empty string.
func set(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}

func optional(v *string) *string { return set(awssdk.ToString(v)) }

// devices returns the block devices. A single one is the image's root device
// whatever its name.
func (a *account) devices(ctx context.Context, s *spec) ([]types.BlockDeviceMapping, error) {
	var all []types.BlockDeviceMapping
	for _, d := range s.BlockDevices {
		name := d.DeviceName
		if len(s.BlockDevices) == 1 || name == rootDevice {
			root, err := a.rootDevice(ctx, s.AMI)
			if err != nil {
				return nil, err
			}
			name = root
		}
		e := &types.EbsBlockDevice{
			VolumeType: types.VolumeType(d.EBS.VolumeType), VolumeSize: awssdk.Int32(d.EBS.VolumeSize),
			Throughput:          d.EBS.Throughput,
			DeleteOnTermination: d.EBS.DeleteOnTermination, SnapshotId: optional(d.EBS.SnapshotID),
			Encrypted: awssdk.Bool(d.EBS.Encrypted),
		}
		if d.EBS.IOPS > 0 {
			e.Iops = awssdk.Int32(d.EBS.IOPS)
		}
		if d.EBS.Encrypted {
			e.KmsKeyId = optional(d.EBS.KMSKeyID)
		}
		all = append(all, types.BlockDeviceMapping{DeviceName: awssdk.String(name), Ebs: e})
	}
	return all, nil
}

// interfaces returns the interfaces in the subnet of the zone, or where the class
// has none for it as they are.
func (s *spec) interfaces(r cloud.CreateRequest) []types.InstanceNetworkInterfaceSpecification {
	zone, _ := s.wantedZone(r)
	var all []types.InstanceNetworkInterfaceSpecification
	for _, n := range s.NetworkInterfaces {
		i := types.InstanceNetworkInterfaceSpecification{
			SubnetId: awssdk.String(cmp.Or(s.subnetIn(zone), n.SubnetID)), Groups: n.SecurityGroupIDs,
			DeviceIndex: n.DeviceIndex, NetworkCardIndex: n.NetworkCardIndex,
			AssociatePublicIpAddress: n.PublicIP, DeleteOnTermination: n.DeleteOnTermination, Description: n.Description,
			InterfaceType: set(n.InterfaceType),
		}
		if n.IPv6AddressCount != nil {
			i.Ipv6AddressCount, i.PrimaryIpv6 = n.IPv6AddressCount, n.PrimaryIPv6
		}
		all = append(all, i)
	}
	return all
}

// tagSpecs returns the tags of all that is made: those of the request, those of
// the class, which win, those by which it is found again, and what becomes of volumes and
// interfaces where that is the same for all.
func (s *spec) tagSpecs(r cloud.CreateRequest) []types.TagSpecification {
	tags := tagList(s.tags(r))
	kinds := []types.ResourceType{
		types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface,
	}
	if s.persistent() {
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
	}
	volumes, interfaces := s.asked()
	stay := map[types.ResourceType]cloud.Retention{
		types.ResourceTypeVolume: volumes, types.ResourceTypeNetworkInterface: interfaces,
	}
	var specs []types.TagSpecification
	for _, of := range kinds {
		mine := tags
		if stay[of] != "" && len(tags) < tagLimits.Max { // a class that fills them all works without
			mine = append(slices.Clone(tags), tagList(map[string]string{cloud.OnTerminationTag: string(stay[of])})...)
		}
		specs = append(specs, types.TagSpecification{ResourceType: of, Tags: mine})
	}
	return specs
}

func (s *spec) market() *types.InstanceMarketOptionsRequest {
	if m := s.MarketOptions; m != nil {
		in := &types.InstanceMarketOptionsRequest{MarketType: types.MarketType(m.MarketType)}
		if o := m.SpotOptions; o != nil && *o != (spotSpec{}) {
			in.SpotOptions = &types.SpotMarketOptions{
				MaxPrice: set(o.MaxPrice), SpotInstanceType: types.SpotInstanceType(o.RequestType),
				InstanceInterruptionBehavior: types.InstanceInterruptionBehavior(o.Interruption),
			}
		}
		return in
	}
	if s.SpotPrice == nil {
		return nil
	}
	return &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{
		SpotInstanceType: types.SpotInstanceTypeOneTime, MaxPrice: optional(s.SpotPrice),
	}}
}

func (s *spec) reservation() *types.CapacityReservationSpecification {
	c := s.CapacityReservation
	if c == nil || *c == (reservationSpec{}) {
		return nil
	}
	if c.Preference != "" {
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreference(
			c.Preference)}
	}
	return &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{
		CapacityReservationId: set(c.ID), CapacityReservationResourceGroupArn: set(c.GroupARN),
	}}
}

// place returns where the instance goes: what the class says, else what the
// machine's annotation says, in the zone that the machine or the class names. EC2
// refuses a zone that is not the subnet's.
func (s *spec) place(r cloud.CreateRequest) *types.Placement {
	zone, _ := s.wantedZone(r)
	p, _ := s.placementOf(r.Annotations)
	switch c := s.Placement; {
	case c != nil:
		p = &types.Placement{
			GroupId: optional(c.GroupID), HostId: optional(c.HostID), Affinity: optional(c.Affinity),
			PartitionNumber: c.PartitionNumber, Tenancy: types.Tenancy(c.Tenancy),
		}
	case p == nil && zone != "":
		p = &types.Placement{}
	}
	if zone != "" {
		p.AvailabilityZone = &zone
	}
	return p
}

func (s *spec) metadata() *types.InstanceMetadataOptionsRequest {
	m := s.MetadataOptions
	if m == nil {
		return nil
	}
	return &types.InstanceMetadataOptionsRequest{
		HttpEndpoint: types.InstanceMetadataEndpointState(m.HTTPEndpoint), HttpTokens: types.HttpTokensState(m.HTTPTokens),
		HttpPutResponseHopLimit: m.HopLimit, HttpProtocolIpv6: types.InstanceMetadataProtocolState(m.HTTPIPv6),
	}
}

func (s *spec) cpu() *types.CpuOptionsRequest {
	if s.CPUOptions == nil {
		return nil
	}
	return &types.CpuOptionsRequest{
		CoreCount: s.CPUOptions.CoreCount, ThreadsPerCore: s.CPUOptions.ThreadsPerCore,
		AmdSevSnp: types.AmdSevSnpSpecification(s.CPUOptions.AMDSEVSNP),
	}
}
