package bootdata

import (
	"cmp"
	"regexp"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Field is that of the provider spec.
const Field = "privateUserData"

// The times that a URL may be valid. The longest is that of S3.
const (
	defaultExpiry = time.Hour
	leastExpiry   = 15 * time.Minute
	mostExpiry    = 7 * 24 * time.Hour
)

// Spec is where a class has its boot data kept.
type Spec struct {
	Bucket      string `json:"bucket"`
	Prefix      string `json:"prefix"`      // of keys; empty is machines
	Expiry      string `json:"expiry"`      // how long a URL is valid, as 1h30m; empty is an hour
	BucketOwner string `json:"bucketOwner"` // id of the account that must have the bucket; empty is any
}

var (
	// bucketName is a part of a host name. S3's certificate does not cover names with dots.
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	accountID  = regexp.MustCompile(`^\d{12}$`)
)

// Validate adds what is wrong with s, which may be nil. It rules out creation only: a class
// that says nothing usable has no objects that other calls could look for.
func (s *Spec) Validate(c *driverkit.Checks) {
	if s == nil || c.Wrong(Field) {
		return
	}
	const bucket, prefix = Field + ".bucket", Field + ".prefix"
	c.Require(cloud.BlocksCreate, bucket, s.Bucket, "name the S3 bucket, e.g. example-boot-data")
	c.Matches(cloud.BlocksCreate, bucket, s.Bucket, bucketName,
		"the name of a bucket of 3 to 63 lower-case letters, digits and hyphens; one with dots has no TLS")
	c.Matches(cloud.BlocksCreate, prefix, s.Prefix, prefixForm,
		"names of letters, digits, dots, hyphens and underscores with single slashes between them, e.g. boot/eu")
	c.Matches(cloud.BlocksCreate, Field+".bucketOwner", s.BucketOwner, accountID, "the id of an AWS account, 12 digits")
	d, err := s.expiry()
	c.BlockIf(!c.Wrong(Field+".expiry") && (err != nil || d < leastExpiry || d > mostExpiry), Field+".expiry",
		"is %q and has to be a time of 15m to 168h, such as 1h30m", s.Expiry)
}

func (s *Spec) expiry() (time.Duration, error) {
	if s.Expiry == "" {
		return defaultExpiry, nil
	}
	return time.ParseDuration(s.Expiry)
}

// Usable reports whether s says where boot data is; s may be nil.
func (s *Spec) Usable() bool {
	return s != nil && bucketName.MatchString(s.Bucket) && (s.Prefix == "" || prefixForm.MatchString(s.Prefix))
}

// Place tells classes apart whose boot data lies in different places. It is empty without one.
func (s *Spec) Place() string {
	if !s.Usable() {
		return ""
	}
	return s.Bucket + "/" + cmp.Or(s.Prefix, defaultPrefix)
}
