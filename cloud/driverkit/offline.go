package driverkit

import (
	"context"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Judge is the part of a cloud.Driver that knows without a call. A driver keeps it in a type of
// its own, so that programs that only judge classes and Secrets are linked without the SDK.
type Judge interface {
	Traits() cloud.Traits
	Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem)
	CheckSecret(c cloud.Class, creds cloud.Credentials) []cloud.Problem
	DecodeProviderID(providerID string) (id string, ok bool)
}

// Offline is a cloud.Driver without accounts.
type Offline struct{ Judge }

// Open refuses.
func (Offline) Open(context.Context, cloud.Class, cloud.Credentials) (cloud.Account, error) {
	return nil, cloud.Errorf(cloud.Invalid, "open account", "Offline", "this program calls no cloud")
}

// SecretsIn is that of the Judge, if it has one.
func (o Offline) SecretsIn(key string, value []byte) (secrets []string, ok bool) {
	if reader, is := o.Judge.(cloud.SecretReader); is {
		return reader.SecretsIn(key, value)
	}
	return nil, false
}
