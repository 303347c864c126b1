// Package bootdata finds the boot data of machines in the entries of a Secret.
package bootdata

import (
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata"
)

// FromSecret returns the boot data in the entries of a Secret, with its placeholders: the entry userData as its
// author wrote it, or what is made from the spec in the entry userDataSpec. Exactly one of them has to be there.
// The error is the end of a sentence about the Secret; it repeats nothing of the content but names of fields and
// what is wrong with their values.
func FromSecret(entries map[string][]byte) ([]byte, error) {
	data, spec := entries[machinev1.UserDataKey], entries[machinev1.UserDataSpecKey]
	switch {
	case len(data) > 0 && len(spec) > 0:
		return nil, fmt.Errorf("has both entries %q and %q; remove one of them", machinev1.UserDataKey,
			machinev1.UserDataSpecKey)
	case len(data) > 0:
		return data, nil
	case len(spec) == 0:
		return nil, fmt.Errorf("has no entry %q; add one with the boot data of the VMs, or %q with a spec of it",
			machinev1.UserDataKey, machinev1.UserDataSpecKey)
	}
	m, err := userdata.Decode(spec)
	if err != nil {
		return nil, fmt.Errorf("has in the entry %q no spec of boot data: %w", machinev1.UserDataSpecKey, err)
	}
	made, err := userdata.Generate(m)
	if err != nil {
		return nil, fmt.Errorf("has in the entry %q a spec that no boot data can be made from: %w",
			machinev1.UserDataSpecKey, err)
	}
	return made.Data, nil
}
