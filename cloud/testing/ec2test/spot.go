package ec2test

import (
	"encoding/xml"
	"maps"
)

// spotRequest remembers the persistent request for an instance. It stays when its
// instance ends; here it launches no other.
func (c *Cloud) spotRequest(f params, vm *Resource, tags map[string]string) {
	if f.Get("InstanceMarketOptions.SpotOptions.SpotInstanceType") != "persistent" {
		return
	}
	vm.SpotRequest = c.put(&Resource{Kind: KindSpotRequest, Tags: maps.Clone(tags), Instance: vm.ID}).ID
}

func (c *Cloud) describeSpotRequests(f params) (any, error) {
	type item struct {
		ID       string    `xml:"spotInstanceRequestId"`
		Instance string    `xml:"instanceId,omitempty"`
		State    string    `xml:"state"`
		Type     string    `xml:"type"`
		Tags     []tagItem `xml:"tagSet>item"`
	}
	page, next := c.page(f, KindSpotRequest, "SpotInstanceRequestId")
	var all []item
	for _, r := range page {
		all = append(all, item{r.ID, r.Instance, requestState(r), "persistent", tagItems(r.Tags)})
	}
	return struct {
		XMLName  xml.Name `xml:"DescribeSpotInstanceRequestsResponse"`
		Requests []item   `xml:"spotInstanceRequestSet>item"`
		Next     string   `xml:"nextToken,omitempty"`
	}{Requests: all, Next: next}, nil
}

// requestState is open where EC2 is about to launch another instance.
func requestState(r *Resource) string {
	if r.Instance == "" {
		return "open"
	}
	return "active"
}

func (c *Cloud) cancelSpotRequests(f params) (any, error) {
	type item struct {
		ID    string `xml:"spotInstanceRequestId"`
		State string `xml:"state"`
	}
	ids := f.list("SpotInstanceRequestId")
	for _, id := range ids {
		if r := c.all[id]; r == nil || r.Kind != KindSpotRequest {
			return nil, fail("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist", id)
		}
	}
	var all []item
	for _, id := range ids {
		delete(c.all, id)
		all = append(all, item{id, "cancelled"})
	}
	return struct {
		XMLName  xml.Name `xml:"CancelSpotInstanceRequestsResponse"`
		Requests []item   `xml:"spotInstanceRequestSet>item"`
	}{Requests: all}, nil
}
