package ec2test

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

const userDataMax = 16384

// runInstances makes one instance, or returns the one of its ClientToken. EC2 keeps the
// tokens of each zone apart.
func (c *Cloud) runInstances(f params) (any, error) {
	asked := maps.Clone(f.Values)
	asked.Del("ClientToken")
	key := tokenKey{f.Get("ClientToken"), c.settings.Subnets[f.Get("NetworkInterface.1.SubnetId")].Zone}
	before, used := c.tokens[key]
	if used && before.asked != asked.Encode() {
		return nil, fail("IdempotentParameterMismatch",
			"Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	}
	if used {
		r := c.all[before.instance]
		if r == nil || !r.Terminated.IsZero() {
			return nil, fail("IdempotentInstanceTerminated",
				"The request has been fulfilled by an instance that is terminated: %s", before.instance)
		}
		return c.launched(r), nil
	}
	data, err := c.check(f)
	if err != nil {
		return nil, err
	}
	r := c.launch(f, data)
	if key.token != "" {
		c.tokens[key] = token{asked.Encode(), r.ID}
	}
	return c.launched(r), nil
}

func (c *Cloud) launched(r *Resource) any {
	return struct {
		XMLName     xml.Name       `xml:"RunInstancesResponse"`
		Reservation string         `xml:"reservationId"`
		Instances   []instanceItem `xml:"instancesSet>item"`
	}{Reservation: "r-" + r.ID[2:], Instances: []instanceItem{c.item(r)}}
}

// check refuses what EC2 refuses and returns the user data.
func (c *Cloud) check(f params) ([]byte, error) {
	s := c.settings
	if _, known := s.Images[f.Get("ImageId")]; !known {
		return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", f.Get("ImageId"))
	}
	if _, known := s.Types[f.Get("InstanceType")]; !known {
		return nil, fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", f.Get("InstanceType"))
	}
	if key := f.Get("KeyName"); key != "" && !slices.Contains(s.Keys, key) {
		return nil, fail("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", key)
	}
	for _, field := range []string{"Name", "Arn"} {
		if p := f.Get("IamInstanceProfile." + field); p != "" && !slices.Contains(s.Profiles, p) {
			return nil, fail("InvalidParameterValue",
				"Value (%s) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %s", p, field, field)
		}
	}
	if f.count("NetworkInterface") == 0 {
		return nil, fail("MissingParameter", "No subnets found for the default VPC. Please specify a subnet.")
	}
	for i := range f.count("NetworkInterface") {
		at := fmt.Sprintf("NetworkInterface.%d.", i+1)
		subnet, known := s.Subnets[f.Get(at+"SubnetId")]
		if !known {
			return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", f.Get(at+"SubnetId"))
		}
		if first := s.Subnets[f.Get("NetworkInterface.1.SubnetId")]; subnet.Zone != first.Zone {
			return nil, fail("InvalidParameterCombination",
				"The subnets of the network interfaces are not in the same Availability Zone.")
		}
		if subnet.Free == 0 {
			return nil, fail("InsufficientFreeAddressesInSubnet",
				"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", f.Get(at+
					"SubnetId"))
		}
		for _, g := range f.list(at + "SecurityGroupId") {
			if !slices.Contains(s.Groups, g) {
				return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", g)
			}
		}
	}
	data, err := base64.StdEncoding.DecodeString(f.Get("UserData"))
	if err != nil {
		return nil, fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(data) > userDataMax {
		return nil, fail("InvalidParameterValue", "User data is limited to %d bytes", userDataMax)
	}
	return data, c.room(f)
}

// room refuses what quota and capacity do not allow.
func (c *Cloud) room(f params) error {
	zone := c.settings.Subnets[f.Get("NetworkInterface.1.SubnetId")].Zone
	if want := f.Get("Placement.AvailabilityZone"); want != "" && want != zone {
		return fail("InvalidParameterValue", "The availability zone '%s' does not match that of the subnet, '%s'.", want,
			zone)
	}
	all, same := 0, 0
	for _, r := range c.all {
		if r.Kind != KindInstance || !r.Terminated.IsZero() {
			continue
		}
		all++
		if r.Zone == zone && r.Type == f.Get("InstanceType") {
			same++
		}
	}
	if c.settings.Quota > 0 && all >= c.settings.Quota {
		return fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit allows.")
	}
	if most, limited := c.settings.Capacity[zone+"/"+f.Get("InstanceType")]; limited && same >= most {
		return &apiError{
			"InsufficientInstanceCapacity",
			fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).",
				f.Get("InstanceType"), zone), 500,
		}
	}
	return nil
}

// launch makes an instance with its volumes and interfaces.
func (c *Cloud) launch(f params, data []byte) *Resource {
	tags := f.tags()
	first := f.Get("NetworkInterface.1.SubnetId")
	vm := c.put(&Resource{
		Kind: KindInstance, Tags: tags[KindInstance], Input: f.Values, Type: f.Get("InstanceType"), UserData: data,
		Subnet: first, Zone: c.settings.Subnets[first].Zone,
	})
	c.spotRequest(f, vm, tags[KindSpotRequest])
	volume := func(device string, with bool) {
		c.put(&Resource{
			Kind: KindVolume, Tags: maps.Clone(tags[KindVolume]), Instance: vm.ID, Device: device,
			DeleteWith: with, Zone: vm.Zone,
		})
	}
	root, hasRoot := c.settings.Images[f.Get("ImageId")], false
	for i := range f.count("BlockDeviceMapping") {
		at := fmt.Sprintf("BlockDeviceMapping.%d.", i+1)
		volume(f.Get(at+"DeviceName"), f.Get(at+"Ebs.DeleteOnTermination") != "false")
		hasRoot = hasRoot || f.Get(at+"DeviceName") == root
	}
	if !hasRoot {
		volume(root, true)
	}
	for i := range f.count("NetworkInterface") {
		c.plug(f, fmt.Sprintf("NetworkInterface.%d.", i+1), vm, maps.Clone(tags[KindInterface]))
	}
	return vm
}

// plug makes one interface of an instance.
func (c *Cloud) plug(f params, at string, vm *Resource, tags map[string]string) {
	number := func(field string) int { n, _ := strconv.Atoi(f.Get(at + field)); return n }
	nic := c.put(&Resource{
		Kind: KindInterface, Tags: tags, Instance: vm.ID, Subnet: f.Get(at + "SubnetId"), Index: number("DeviceIndex"),
		Card:       number("NetworkCardIndex"),
		DeleteWith: f.Get(at+"DeleteOnTermination") != "false", InterfaceType: f.Get(at + "InterfaceType"),
		SourceDestCheck: true,
	})
	nic.IP = c.address()
	for i := range number("Ipv6AddressCount") {
		nic.IPv6 = append(nic.IPv6, fmt.Sprintf("2001:db8::%x:%x", nic.serial, i+1))
	}
	if f.Get(at+"AssociatePublicIpAddress") == "true" {
		nic.PublicIP = "198.51.100." + strconv.Itoa(nic.serial%250+1)
	}
	if vm.IP == "" {
		vm.IP, vm.PublicIP = nic.IP, nic.PublicIP
	}
	subnet := c.settings.Subnets[nic.Subnet]
	if subnet.Free > 0 {
		subnet.Free--
		c.settings.Subnets[nic.Subnet] = subnet
	}
}

// tags returns the tags by kind of resource.
func (f params) tags() map[string]map[string]string {
	all := map[string]map[string]string{KindInstance: {}, KindVolume: {}, KindInterface: {}, KindSpotRequest: {}}
	for i := range f.count("TagSpecification") {
		at := fmt.Sprintf("TagSpecification.%d.", i+1)
		into := all[f.Get(at+"ResourceType")]
		for j := range f.count(at + "Tag") {
			if into != nil {
				into[f.Get(fmt.Sprintf("%sTag.%d.Key", at, j+1))] = f.Get(fmt.Sprintf("%sTag.%d.Value", at, j+1))
			}
		}
	}
	return all
}

func (c *Cloud) terminateInstances(f params) (any, error) {
	ids := f.list("InstanceId")
	for _, id := range ids {
		r := c.all[id]
		if r == nil || r.Kind != KindInstance {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		if r.Input.Get("DisableApiTermination") == "true" {
			return nil, fail("OperationNotPermitted",
				"The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", id)
		}
	}
	type item struct {
		ID    string    `xml:"instanceId"`
		State stateItem `xml:"currentState"`
	}
	var items []item
	for _, id := range ids {
		c.terminate(c.all[id], "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")
		items = append(items, item{id, stateItemOf(c.state(c.all[id]))})
	}
	c.sweep()
	return struct {
		XMLName   xml.Name `xml:"TerminateInstancesResponse"`
		Instances []item   `xml:"instancesSet>item"`
	}{Instances: items}, nil
}

// known are the instances that a request names.
func (c *Cloud) known(f params) ([]*Resource, error) {
	var all []*Resource
	for _, id := range f.list("InstanceId") {
		r := c.all[id]
		if r == nil || r.Kind != KindInstance {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		all = append(all, r)
	}
	return all, nil
}

func (c *Cloud) rebootInstances(f params) (any, error) {
	all, err := c.known(f)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if s := c.state(r); s != stateRunning && s != statePending {
			return nil, fail("IncorrectState", "Cannot reboot instance %s that is currently in %s state.", r.ID, s)
		}
	}
	for _, r := range all {
		r.Boots++
	}
	return succeeded(f), nil
}

func (c *Cloud) startInstances(f params) (any, error) {
	all, err := c.known(f)
	if err != nil {
		return nil, err
	}
	type item struct {
		ID    string    `xml:"instanceId"`
		State stateItem `xml:"currentState"`
	}
	var items []item
	for _, r := range all {
		if s := c.state(r); s == stateShuttingDown || s == stateTerminated {
			return nil, fail("IncorrectInstanceState",
				"The instance '%s' is not in a state from which it can be started.", r.ID)
		}
	}
	for _, r := range all {
		if r.Stopped {
			r.Stopped, r.Boots = false, r.Boots+1
		}
		items = append(items, item{r.ID, stateItemOf(c.state(r))})
	}
	return struct {
		XMLName   xml.Name `xml:"StartInstancesResponse"`
		Instances []item   `xml:"instancesSet>item"`
	}{Instances: items}, nil
}

// done is the answer of an action that says no more.
type done struct {
	XMLName xml.Name
	Return  bool `xml:"return"`
}

func succeeded(f params) done {
	return done{xml.Name{Local: f.Get("Action") + "Response"}, true}
}

// part returns a volume or an interface.
func (c *Cloud) part(kind, id, code string) (*Resource, error) {
	r := c.all[id]
	if r == nil || r.Kind != kind {
		return nil, fail(code, "The %s '%s' does not exist", kind, id)
	}
	return r, nil
}

func (c *Cloud) deleteVolume(f params) (any, error) {
	r, err := c.part(KindVolume, f.Get("VolumeId"), "InvalidVolume.NotFound")
	if err != nil {
		return nil, err
	}
	if r.Instance != "" {
		return nil, fail("VolumeInUse", "Volume %s is currently attached to %s", r.ID, r.Instance)
	}
	delete(c.all, r.ID)
	return succeeded(f), nil
}

func (c *Cloud) deleteInterface(f params) (any, error) {
	r, err := c.part(KindInterface, f.Get("NetworkInterfaceId"), "InvalidNetworkInterfaceID.NotFound")
	if err != nil {
		return nil, err
	}
	if r.Instance != "" {
		return nil, fail("InvalidParameterValue", "Network interface '%s' is currently in use.", r.ID)
	}
	delete(c.all, r.ID)
	return succeeded(f), nil
}

func (c *Cloud) modifyInterface(f params) (any, error) {
	r, err := c.part(KindInterface, f.Get("NetworkInterfaceId"), "InvalidNetworkInterfaceID.NotFound")
	if err != nil {
		return nil, err
	}
	if v := f.Get("SourceDestCheck.Value"); v != "" {
		r.SourceDestCheck = v == "true"
	}
	return succeeded(f), nil
}

func (c *Cloud) assignPrefixes(f params) (any, error) {
	r, err := c.part(KindInterface, f.Get("NetworkInterfaceId"), "InvalidNetworkInterfaceID.NotFound")
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(f.Get("Ipv6PrefixCount"))
	for range n {
		r.Prefixes = append(r.Prefixes, fmt.Sprintf("2001:db8:%x:%x::/80", r.serial, len(r.Prefixes)+1))
	}
	return struct {
		XMLName  xml.Name `xml:"AssignIpv6AddressesResponse"`
		ID       string   `xml:"networkInterfaceId"`
		Prefixes []string `xml:"assignedIpv6PrefixSet>item"`
	}{ID: r.ID, Prefixes: r.Prefixes[len(r.Prefixes)-n:]}, nil
}
