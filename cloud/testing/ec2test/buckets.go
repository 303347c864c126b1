package ec2test

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bucket is a token bucket. The zero value is no limit.
type Bucket struct {
	Max       float64 // tokens that it holds
	PerSecond float64 // tokens that it gets
}

// Names of buckets that are not those of an action.
const (
	BucketDescribe  = "Describe*"                    // of actions that only read
	BucketMutating  = "*"                            // of the others
	BucketLaunched  = "RunInstances instances"       // a token is an instance
	BucketTerminate = "TerminateInstances instances" // a token is an instance
)

// DocumentedBuckets are what an account has in a region by default, according to
// "Request throttling for the Amazon EC2 API" in the EC2 developer guide: tokens for
// requests, and for some actions also for the instances that they are about. Requests
// that neither filter nor page have half of the tokens for reading.
func DocumentedBuckets() map[string]Bucket {
	return map[string]Bucket{
		BucketDescribe: {100, 20}, BucketMutating: {50, 5},
		"RunInstances": {5, 2}, BucketLaunched: {1000, 2},
		"TerminateInstances": {100, 5}, BucketTerminate: {1000, 20},
	}
}

// level is how full a bucket was.
type level struct {
	tokens float64
	at     time.Time
}

// throttle refuses a request for which a bucket has too few tokens. Each action has its
// own, also where several have the same figures.
func (c *Cloud) throttle(form url.Values) error {
	action, cost := form.Get("Action"), 1.0
	b, own := c.settings.Buckets[action]
	switch {
	case own:
	case strings.HasPrefix(action, "Describe"):
		b = c.settings.Buckets[BucketDescribe]
		if (params{form}).count("Filter") == 0 && !form.Has("MaxResults") {
			cost = 2
		}
	default:
		b = c.settings.Buckets[BucketMutating]
	}
	resources, n := "", 1.0
	switch action {
	case "RunInstances":
		resources = BucketLaunched
	case "TerminateInstances":
		resources, n = BucketTerminate, float64(len(params{form}.list("InstanceId")))
	}
	if !c.take(action, b, cost) || !c.take(resources, c.settings.Buckets[resources], n) {
		return &apiError{"RequestLimitExceeded", "Request limit exceeded.", http.StatusServiceUnavailable}
	}
	return nil
}

// take takes tokens from a bucket, and reports whether it had as many.
func (c *Cloud) take(name string, b Bucket, n float64) bool {
	if b == (Bucket{}) {
		return true
	}
	now := c.now()
	l, known := c.levels[name]
	if !known {
		l = level{b.Max, now}
	}
	l.tokens = min(b.Max, l.tokens+b.PerSecond*now.Sub(l.at).Seconds())
	l.at = now
	enough := l.tokens >= n
	if enough {
		l.tokens -= n
	}
	c.levels[name] = l
	return enough
}
