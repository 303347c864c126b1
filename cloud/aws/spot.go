package aws

import (
	"context"
	"regexp"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// spotSpec says how an instance is bought on the spot market.
type spotSpec struct {
	MaxPrice     string `json:"maxPrice"`                     // an hour; empty is the price on demand
	RequestType  string `json:"spotInstanceType"`             // empty is one-time
	Interruption string `json:"instanceInterruptionBehavior"` // empty is terminate
}

// persistentTag marks what a persistent spot request has launched: EC2 launches another
// instance when that one ends, unless the request is canceled first.
const persistentTag = cloud.TagPrefix + "spot-request"

const (
	persistent  = string(types.SpotInstanceTypePersistent)
	codeRequest = "InvalidSpotInstanceRequestID.NotFound"
)

var price = regexp.MustCompile(`\d+(\.\d+)?`)

// validateSpot checks how instances are bought. EC2 takes persistent requests only for
// instances that it stops or hibernates, and others only for those that it terminates.
func (s *spec) validateSpot() {
	const at = "instanceMarketOptions.spotOptions"
	if s.MarketOptions == nil || s.MarketOptions.SpotOptions == nil {
		return
	}
	o := s.MarketOptions.SpotOptions
	if s.MarketOptions.MarketType != string(types.MarketTypeSpot) {
		s.Block(at, "needs instanceMarketOptions.marketType: spot; set that, or remove it")
	}
	s.Matches(cloud.BlocksCreate, at+".maxPrice", o.MaxPrice, price, "a price in US dollars an hour, e.g. \"0.05\"")
	s.OneOf(at+".spotInstanceType", o.RequestType, "one-time", persistent)
	s.OneOf(at+".instanceInterruptionBehavior", o.Interruption, "terminate", "stop", "hibernate")
	if ends := o.Interruption == "" || o.Interruption == "terminate"; ends == (o.RequestType == persistent) {
		s.Block(at+".instanceInterruptionBehavior",
			"has to be stop or hibernate with spotInstanceType: persistent, and terminate without; change one of them")
	}
}

// persistent reports whether EC2 keeps the requests for the instances of the class.
func (s *spec) persistent() bool {
	return s.MarketOptions != nil && s.MarketOptions.SpotOptions != nil &&
		s.MarketOptions.SpotOptions.RequestType == persistent
}

// cancelRequest cancels the persistent request that has launched an instance, so that
// EC2 launches no other when it ends.
func (a *account) cancelRequest(ctx context.Context, vm resource) error {
	id := awssdk.ToString(vm.instance.SpotInstanceRequestId)
	if id == "" || vm.tags[persistentTag] == "" {
		return nil
	}
	return a.cancel(ctx, id)
}

// cancelLoose cancels the persistent requests of r that have lost their instances.
func (a *account) cancelLoose(ctx context.Context, s *spec, r cloud.Ref) error {
	if !s.persistent() || r.Name == "" {
		return nil
	}
	out, err := ask(ctx, a, opDelete, a.client.DescribeSpotInstanceRequests, &ec2.DescribeSpotInstanceRequestsInput{
		Filters: append(owned(s.ownership), filter("tag:"+nameTag, r.Name), filter("state", "open", "active", "disabled")),
	})
	if err != nil {
		return reading(err)
	}
	id, known := decodeProviderID(r.ProviderID)
	var loose []string
	for _, q := range out.SpotInstanceRequests {
		launched := awssdk.ToString(q.InstanceId)
		if s.owns(resource{tags: tagMap(q.Tags)}, r) && (!known || launched == "" || launched == id) {
			loose = append(loose, awssdk.ToString(q.SpotInstanceRequestId))
		}
	}
	if len(loose) == 0 {
		return nil
	}
	return a.cancel(ctx, loose...)
}

func (a *account) cancel(ctx context.Context, ids ...string) error {
	_, err := ask(ctx, a, opDelete, a.client.CancelSpotInstanceRequests,
		&ec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: ids})
	if err == nil || err.Reason == codeRequest {
		return nil
	}
	return reading(err)
}
