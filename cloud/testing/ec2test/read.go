package ec2test

import (
	"encoding/xml"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type tagSet struct {
	Items []tagItem `xml:"item"`
}

type stateItem struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func stateItemOf(name string) stateItem {
	codes := map[string]int{
		statePending: 0, stateRunning: 16, stateShuttingDown: 32, stateTerminated: 48,
		stateStopped: 80,
	}
	return stateItem{codes[name], name}
}

type attachmentItem struct {
	ID         string `xml:"attachmentId,omitempty"`
	Instance   string `xml:"instanceId,omitempty"`
	Volume     string `xml:"volumeId,omitempty"`
	Device     string `xml:"device,omitempty"`
	Index      *int   `xml:"deviceIndex"`
	Card       *int   `xml:"networkCardIndex"`
	Status     string `xml:"status"`
	Time       string `xml:"attachTime"`
	DeleteWith bool   `xml:"deleteOnTermination"`
}

type ipv6Item struct {
	Address string `xml:"ipv6Address"`
}

type prefixItem struct {
	Prefix string `xml:"ipv6Prefix"`
}

type publicItem struct {
	IP string `xml:"publicIp"`
}

type interfaceItem struct {
	ID          string          `xml:"networkInterfaceId"`
	Subnet      string          `xml:"subnetId"`
	Status      string          `xml:"status"`
	IP          string          `xml:"privateIpAddress"`
	Check       bool            `xml:"sourceDestCheck"`
	Type        string          `xml:"interfaceType"`
	Attachment  *attachmentItem `xml:"attachment"`
	Association *publicItem     `xml:"association"`
	IPv6        []ipv6Item      `xml:"ipv6AddressesSet>item"`
	Prefixes    []prefixItem    `xml:"ipv6PrefixSet>item"`
	Tags        *tagSet         `xml:"tagSet"` // nil as a part of an instance
}

type deviceItem struct {
	Name string `xml:"deviceName"`
	EBS  struct {
		Volume     string `xml:"volumeId"`
		DeleteWith bool   `xml:"deleteOnTermination"`
	} `xml:"ebs"`
}

type reasonItem struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type instanceItem struct {
	ID         string          `xml:"instanceId"`
	Image      string          `xml:"imageId"`
	State      stateItem       `xml:"instanceState"`
	DNS        string          `xml:"privateDnsName"`
	PublicDNS  string          `xml:"dnsName"`
	Type       string          `xml:"instanceType"`
	Launched   string          `xml:"launchTime"`
	Zone       string          `xml:"placement>availabilityZone"`
	Subnet     string          `xml:"subnetId,omitempty"`
	IP         string          `xml:"privateIpAddress,omitempty"`
	PublicIP   string          `xml:"ipAddress,omitempty"`
	Reason     *reasonItem     `xml:"stateReason"`
	Token      string          `xml:"clientToken"`
	Lifecycle  string          `xml:"instanceLifecycle,omitempty"`
	Request    string          `xml:"spotInstanceRequestId,omitempty"`
	Tags       []tagItem       `xml:"tagSet>item"`
	Interfaces []interfaceItem `xml:"networkInterfaceSet>item"`
	Devices    []deviceItem    `xml:"blockDeviceMapping>item"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func tagItems(tags map[string]string) []tagItem {
	var all []tagItem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, tagItem{key, tags[key]})
	}
	return all
}

// item returns an instance as EC2 shows it.
func (c *Cloud) item(r *Resource) instanceItem {
	i := instanceItem{
		ID: r.ID, Image: r.Input.Get("ImageId"), State: stateItemOf(c.state(r)), Type: r.Type, Launched: stamp(r.Made),
		Zone: r.Zone, Subnet: r.Subnet, IP: r.IP, PublicIP: r.PublicIP, Token: r.Input.Get("ClientToken"),
		Tags: tagItems(r.Tags), Request: r.SpotRequest,
	}
	if i.State.Name == stateTerminated {
		i.IP, i.PublicIP, i.Subnet = "", "", ""
	} else if !r.NoDNS {
		i.DNS = PrivateDNSName(r.IP, c.settings.Region)
	}
	if r.Code != "" {
		i.Reason = &reasonItem{r.Code, r.Why}
	}
	if r.Input.Get("InstanceMarketOptions.MarketType") == "spot" {
		i.Lifecycle = "spot"
	}
	var parts []*Resource
	for _, p := range c.all {
		if p.Instance == r.ID {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b *Resource) int { return a.serial - b.serial })
	for _, p := range parts {
		switch p.Kind {
		case KindInterface:
			nic := c.nic(p)
			nic.Tags, nic.Attachment.Instance = nil, ""
			i.Interfaces = append(i.Interfaces, nic)
		case KindVolume:
			d := deviceItem{Name: p.Device}
			d.EBS.Volume, d.EBS.DeleteWith = p.ID, p.DeleteWith
			i.Devices = append(i.Devices, d)
		}
	}
	return i
}

// PrivateDNSName is the name of an instance with that address.
func PrivateDNSName(ip, region string) string {
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + region + ".compute.internal"
}

func (c *Cloud) nic(r *Resource) interfaceItem {
	n := interfaceItem{
		ID: r.ID, Subnet: r.Subnet, Status: "available", IP: r.IP, Check: r.SourceDestCheck, Type: r.InterfaceType,
		Tags: &tagSet{tagItems(r.Tags)},
	}
	if n.Type == "" {
		n.Type = "interface"
	}
	if r.Instance != "" {
		n.Status = "in-use"
		n.Attachment = &attachmentItem{
			ID: "eni-attach-" + r.ID[4:], Instance: r.Instance, Index: &r.Index, Card: &r.Card, Status: "attached",
			Time: stamp(r.Made), DeleteWith: r.DeleteWith,
		}
	}
	if r.PublicIP != "" {
		n.Association = &publicItem{r.PublicIP}
	}
	for _, ip := range r.IPv6 {
		n.IPv6 = append(n.IPv6, ipv6Item{ip})
	}
	for _, p := range r.Prefixes {
		n.Prefixes = append(n.Prefixes, prefixItem{p})
	}
	return n
}

func (c *Cloud) describeInstances(f params) (any, error) {
	for _, id := range f.list("InstanceId") {
		if r := c.all[id]; r == nil || c.hidden(r) {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	page, next := c.page(f, KindInstance, "InstanceId")
	type reservation struct {
		ID        string         `xml:"reservationId"`
		Instances []instanceItem `xml:"instancesSet>item"`
	}
	var all []reservation
	for _, r := range page {
		all = append(all, reservation{"r-" + r.ID[2:], []instanceItem{c.item(r)}})
	}
	return struct {
		XMLName      xml.Name      `xml:"DescribeInstancesResponse"`
		Reservations []reservation `xml:"reservationSet>item"`
		Next         string        `xml:"nextToken,omitempty"`
	}{Reservations: all, Next: next}, nil
}

func (c *Cloud) describeVolumes(f params) (any, error) {
	type item struct {
		ID          string           `xml:"volumeId"`
		Zone        string           `xml:"availabilityZone"`
		Status      string           `xml:"status"`
		Made        string           `xml:"createTime"`
		Attachments []attachmentItem `xml:"attachmentSet>item"`
		Tags        []tagItem        `xml:"tagSet>item"`
	}
	page, next := c.page(f, KindVolume, "VolumeId")
	var all []item
	for _, r := range page {
		v := item{ID: r.ID, Zone: r.Zone, Status: "available", Made: stamp(r.Made), Tags: tagItems(r.Tags)}
		if r.Instance != "" {
			v.Status = "in-use"
			v.Attachments = []attachmentItem{{
				Instance: r.Instance, Volume: r.ID, Device: r.Device, Status: "attached",
				Time: stamp(r.Made), DeleteWith: r.DeleteWith,
			}}
		}
		all = append(all, v)
	}
	return struct {
		XMLName xml.Name `xml:"DescribeVolumesResponse"`
		Volumes []item   `xml:"volumeSet>item"`
		Next    string   `xml:"nextToken,omitempty"`
	}{Volumes: all, Next: next}, nil
}

func (c *Cloud) describeInterfaces(f params) (any, error) {
	page, next := c.page(f, KindInterface, "NetworkInterfaceId")
	var all []interfaceItem
	for _, r := range page {
		all = append(all, c.nic(r))
	}
	return struct {
		XMLName    xml.Name        `xml:"DescribeNetworkInterfacesResponse"`
		Interfaces []interfaceItem `xml:"networkInterfaceSet>item"`
		Next       string          `xml:"nextToken,omitempty"`
	}{Interfaces: all, Next: next}, nil
}

// hidden reports whether reads do not show it yet.
func (c *Cloud) hidden(r *Resource) bool { return c.now().Sub(r.Made) < c.settings.Settle }

// page returns a page of what matches, and the token of the next.
func (c *Cloud) page(f params, kind, ids string) (page []*Resource, next string) {
	size := c.settings.PageSize
	if n, err := strconv.Atoi(f.Get("MaxResults")); err == nil && n < size {
		size = n
	}
	after, _ := strconv.Atoi(f.Get("NextToken"))
	if c.settings.EmptyPages && f.Has("MaxResults") && !f.Has("NextToken") {
		return nil, "0"
	}
	wanted := f.list(ids)
	for _, r := range c.sorted() {
		if r.Kind != kind || r.serial <= after || c.hidden(r) || len(wanted) > 0 && !slices.Contains(wanted, r.ID) ||
			!c.matches(f, r) {
			continue
		}
		if len(page) == size {
			return page, fmt.Sprint(page[size-1].serial)
		}
		page = append(page, r)
	}
	return page, ""
}

// matches reports whether a resource passes all filters.
func (c *Cloud) matches(f params, r *Resource) bool {
	for i := range f.count("Filter") {
		at := fmt.Sprintf("Filter.%d.", i+1)
		name, values := f.Get(at+"Name"), f.list(at+"Value")
		has := func(have ...string) bool {
			return slices.ContainsFunc(values, func(pattern string) bool {
				return slices.ContainsFunc(have, func(v string) bool { return like(pattern, v) })
			})
		}
		ok := false
		tag, isTag := strings.CutPrefix(name, "tag:")
		value, tagged := r.Tags[tag]
		switch {
		case isTag:
			ok = tagged && has(value)
		case name == "tag-key":
			ok = has(slices.Collect(maps.Keys(r.Tags))...)
		case name == "state":
			ok = has(requestState(r))
		case name == "instance-state-name":
			ok = has(c.state(r))
		case name == "instance-id", name == "volume-id", name == "network-interface-id":
			ok = has(r.ID)
		case name == "attachment.instance-id":
			ok = has(r.Instance)
		}
		if !ok {
			return false
		}
	}
	return true
}

// like matches a pattern of EC2: * and ?, escaped by a backslash.
func like(pattern, value string) bool {
	escape := strings.NewReplacer("[", `\[`, "/", "\x00")
	ok, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(value, "/", "\x00"))
	return err == nil && ok
}

func (c *Cloud) describeImages(f params) (any, error) {
	type item struct {
		ID   string `xml:"imageId"`
		Root string `xml:"rootDeviceName"`
	}
	var all []item
	for _, id := range f.list("ImageId") {
		root, known := c.settings.Images[id]
		if !known {
			return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
		all = append(all, item{id, root})
	}
	return struct {
		XMLName xml.Name `xml:"DescribeImagesResponse"`
		Images  []item   `xml:"imagesSet>item"`
	}{Images: all}, nil
}

func (c *Cloud) describeSubnets(f params) (any, error) {
	type item struct {
		ID   string `xml:"subnetId"`
		Zone string `xml:"availabilityZone"`
		Free int    `xml:"availableIpAddressCount"`
	}
	var all []item
	for _, id := range f.list("SubnetId") {
		s, known := c.settings.Subnets[id]
		if !known {
			return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
		all = append(all, item{id, s.Zone, s.Free})
	}
	return struct {
		XMLName xml.Name `xml:"DescribeSubnetsResponse"`
		Subnets []item   `xml:"subnetSet>item"`
	}{Subnets: all}, nil
}

func (c *Cloud) describeTypes(f params) (any, error) {
	type gpu struct {
		Count int `xml:"count"`
	}
	type item struct {
		Name   string   `xml:"instanceType"`
		CPU    int      `xml:"vCpuInfo>defaultVCpus"`
		Memory int      `xml:"memoryInfo>sizeInMiB"`
		GPU    []gpu    `xml:"gpuInfo>gpus>item"`
		Arch   []string `xml:"processorInfo>supportedArchitectures>item"`
	}
	var all []item
	for _, name := range f.list("InstanceType") {
		t, known := c.settings.Types[name]
		if !known {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		i := item{Name: name, CPU: t.CPU, Memory: t.MemoryMiB, Arch: []string{t.Architecture}}
		if t.GPU > 0 {
			i.GPU = []gpu{{t.GPU}}
		}
		all = append(all, i)
	}
	return struct {
		XMLName xml.Name `xml:"DescribeInstanceTypesResponse"`
		Types   []item   `xml:"instanceTypeSet>item"`
	}{Types: all}, nil
}
