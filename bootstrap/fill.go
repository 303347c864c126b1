// Package bootstrap completes the bootstrap data of VMs: it replaces placeholders and
// compresses data that is too long for the cloud.
package bootstrap

import (
	"bytes"
	"errors"
	"net/url"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// ErrNoToken means that the data has a placeholder for a bootstrap token and there is no
// token.
var ErrNoToken = errors.New("boot data contains " + machinev1.BootstrapTokenPlaceholder +
	", and there is no bootstrap token")

// KeepToken as Values.Token keeps the placeholder of the token, as MCM does where there is
// no target cluster to create a token in.
const KeepToken = machinev1.BootstrapTokenPlaceholder

// Values are the values of the placeholders.
type Values struct {
	MachineName string
	Token       string // a secret; empty if NeedsToken is false
}

// Fill returns data with its placeholders replaced: all plain ones, or, where
// there is no plain one, all URL-encoded ones, by the URL-encoded value (an
// ignition document embeds files like that). data is not modified; without
// placeholders the result equals it. The error is ErrNoToken.
// Source: MCM pkg/util/provider/machinecontroller/userdata.go.
func Fill(data []byte, v Values) ([]byte, error) {
	if v.Token == "" && NeedsToken(data) {
		return nil, ErrNoToken
	}
	filled := replace(data, machinev1.BootstrapTokenPlaceholder, v.Token)
	return replace(filled, machinev1.MachineNamePlaceholder, v.MachineName), nil
}

// NeedsToken reports whether data has the placeholder for a bootstrap token.
func NeedsToken(data []byte) bool {
	return bytes.Contains(data, []byte(machinev1.BootstrapTokenPlaceholder)) ||
		bytes.Contains(data, []byte(url.QueryEscape(machinev1.BootstrapTokenPlaceholder)))
}

func replace(data []byte, placeholder, value string) []byte {
	if !bytes.Contains(data, []byte(placeholder)) {
		placeholder, value = url.QueryEscape(placeholder), url.QueryEscape(value)
	}
	return bytes.ReplaceAll(data, []byte(placeholder), []byte(value))
}
