package ec2test

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The target groups of DefaultSettings.
const (
	GroupAPIServer = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/apiserver/0123456789abcdef"
	GroupIngress   = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/ingress/fedcba9876543210"
	GroupElsewhere = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/elsewhere/0000000000000001"
)

// balancing is Elastic Load Balancing's name where requests are signed, and balancingVersion
// that of its API.
const (
	balancing        = "elasticloadbalancing"
	balancingVersion = "2015-12-01"
)

// TargetGroup is a target group of instances.
type TargetGroup struct {
	VPC   string        // empty is that of subnets without one
	Delay time.Duration // from deregistered to without connections
	Max   int           // targets; 0 is no limit
}

// Target is an instance with a port in a target group.
type Target struct {
	Instance string
	Port     int
	Drained  time.Time // when connections are closed; zero: it is registered
}

// Targets returns the targets of a group that get requests, or still have connections.
func (c *Cloud) Targets(group string) []Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepTargets()
	return slices.Clone(c.targets[group])
}

// sweepTargets lets targets go that are drained, and those whose instances are terminated,
// which Elastic Load Balancing deregisters by itself.
func (c *Cloud) sweepTargets() {
	for group, all := range c.targets {
		c.targets[group] = slices.DeleteFunc(all, func(t Target) bool {
			i := c.all[t.Instance]
			drained := !t.Drained.IsZero() && !c.now().Before(t.Drained)
			return drained || i == nil || c.state(i) == stateTerminated
		})
	}
}

//go:embed balancing.json
var balancingText []byte

// balancingModel is what Amazon publishes about the requests of Elastic Load Balancing.
var balancingModel = sync.OnceValue(func() model {
	var m model
	if err := json.Unmarshal(balancingText, &m); err != nil {
		panic(err)
	}
	return m
})

// balance serves a request of Elastic Load Balancing.
func (c *Cloud) balance(f params) (any, error) {
	do, known := map[string]func(params, string, Target) (any, error){
		"RegisterTargets": c.registerTarget, "DeregisterTargets": c.deregisterTarget,
		"DescribeTargetHealth": c.describeTarget,
	}[f.Get("Action")]
	if !known {
		return nil, fail("InvalidAction", "Could not find operation %s for version %s", f.Get("Action"), balancingVersion)
	}
	flat := url.Values{}
	for name, values := range f.Values {
		flat[strings.ReplaceAll(name, ".member.", ".")] = values
	}
	if err := balancingModel().check(flat); err != nil {
		return nil, fail("ValidationError", "%v", err)
	}
	fault := c.fault(f.Get("Action"))
	if fault != nil && !fault.After {
		return nil, fault.error()
	}
	c.sweepTargets()
	out, err := c.target(f, do)
	if fault != nil {
		return nil, fault.error()
	}
	return out, err
}

var groupARN = regexp.MustCompile(
	`^arn:aws:elasticloadbalancing:[a-z0-9-]+:\d{12}:targetgroup/[A-Za-z0-9-]+/[0-9a-f]{16}$`)

// target checks the one target of a request and does what is asked for.
func (c *Cloud) target(f params, do func(params, string, Target) (any, error)) (any, error) {
	group := f.Get("TargetGroupArn")
	if !groupARN.MatchString(group) {
		return nil, fail("ValidationError", "'%s' is not a valid target group ARN", group)
	}
	if _, ok := c.settings.TargetGroups[group]; !ok {
		return nil, fail("TargetGroupNotFound", "One or more target groups not found")
	}
	if f.Has("Targets.member.2.Id") {
		return nil, fail("ValidationError", "this double takes one target a request")
	}
	port, err := strconv.Atoi(f.Get("Targets.member.1.Port"))
	if err != nil || port < 1 || port > 65535 {
		return nil, fail("ValidationError", "Port '%s' is not from 1 to 65535", f.Get("Targets.member.1.Port"))
	}
	id := f.Get("Targets.member.1.Id")
	if !instanceID.MatchString(id) {
		return nil, fail("ValidationError", "Instance ID '%s' is not valid", id)
	}
	return do(f, group, Target{Instance: id, Port: port})
}

func (c *Cloud) find(group string, t Target) int {
	return slices.IndexFunc(c.targets[group], func(o Target) bool { return o.Instance == t.Instance && o.Port == t.Port })
}

func (c *Cloud) registerTarget(_ params, group string, t Target) (any, error) {
	i, g, at := c.all[t.Instance], c.settings.TargetGroups[group], c.find(group, t)
	switch {
	case i == nil || i.Kind != KindInstance || c.state(i) == stateTerminated:
		return nil, fail("InvalidTarget", "The following targets are not in a valid state: '%s'", t.Instance)
	case c.settings.Subnets[i.Subnet].VPC != g.VPC:
		return nil, fail("InvalidTarget", "The following targets are not in the target group VPC '%s': '%s'", g.VPC,
			t.Instance)
	case c.state(i) != stateRunning:
		return nil, fail("InvalidTarget", "The following targets are not in a running state and cannot be registered: '%s'",
			t.Instance)
	case at < 0 && g.Max > 0 && len(c.targets[group]) >= g.Max:
		return nil, fail("TooManyTargets", "The maximum number of targets in target group '%s' has been reached", group)
	case at >= 0:
		c.targets[group] = slices.Delete(c.targets[group], at, at+1)
	}
	c.targets[group] = append(c.targets[group], t)
	return targetAnswer("RegisterTargets", ""), nil
}

func (c *Cloud) deregisterTarget(_ params, group string, t Target) (any, error) {
	if at := c.find(group, t); at >= 0 && c.targets[group][at].Drained.IsZero() {
		c.targets[group][at].Drained = c.now().Add(c.settings.TargetGroups[group].Delay)
	}
	return targetAnswer("DeregisterTargets", ""), nil
}

func (c *Cloud) describeTarget(_ params, group string, t Target) (any, error) {
	state, reason := "unused", "Target.NotRegistered"
	if at := c.find(group, t); at >= 0 {
		if state, reason = "initial", "Elb.RegistrationInProgress"; !c.targets[group][at].Drained.IsZero() {
			state, reason = "draining", "Target.DeregistrationInProgress"
		}
	}
	return targetAnswer("DescribeTargetHealth", "<TargetHealthDescriptions><member><Target><Id>"+t.Instance+
		"</Id><Port>"+strconv.Itoa(t.Port)+"</Port></Target><TargetHealth><State>"+state+"</State><Reason>"+reason+
		"</Reason></TargetHealth></member></TargetHealthDescriptions>"), nil
}

// targetAnswer is the answer of an action, with what it says as XML.
func targetAnswer(action, inner string) any {
	type result struct {
		XMLName xml.Name
		Inner   string `xml:",innerxml"`
	}
	return struct {
		XMLName  xml.Name
		Result   result
		Metadata string `xml:"ResponseMetadata>RequestId"`
	}{
		XMLName: xml.Name{Local: action + "Response", Space: "http://elasticloadbalancing.amazonaws.com/doc/" +
			balancingVersion + "/"},
		Result: result{XMLName: xml.Name{Local: action + "Result"}, Inner: inner}, Metadata: "ec2test",
	}
}

// refuseBalancing writes an error as Elastic Load Balancing does.
func refuseBalancing(w http.ResponseWriter, e *apiError) {
	type detail struct{ Type, Code, Message string }
	text, _ := xml.Marshal(struct { // cannot fail
		XMLName   xml.Name `xml:"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/ ErrorResponse"`
		Error     detail
		RequestID string `xml:"RequestId"`
	}{Error: detail{"Sender", e.code, e.message}, RequestID: "ec2test"})
	w.WriteHeader(e.status)
	_, _ = w.Write(text) // the caller may be gone
}
