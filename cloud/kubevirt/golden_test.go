package kubevirt_test

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// made finds what differs from run to run: ids of machines and clusters, and the namespace.
var made = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|infra-[0-9]+|userdata-[a-z0-9-]+`)

// normalize returns a call that makes something, without what differs from run to run.
func normalize(c cloudtest.Call) string {
	if !c.Mutates {
		return ""
	}
	var body bytes.Buffer
	if err := json.Indent(&body, c.Body, "", "  "); err != nil {
		return err.Error()
	}
	return made.ReplaceAllString(c.Op+"\n"+body.String(), "-")
}

// everyField changes a class so that it has every field of a provider spec. Three of them exclude
// others: an instance type the resources, a claim the storage, and a network that is default the binding in that of
// pods.
func everyField() map[string]any {
	type object = map[string]any
	on := true
	size := func(size string) object { return object{"requests": object{"storage": size}} }
	return object{
		"zones": []string{"eu-2"}, "instancetype": nil,
		"resources": object{
			"requests": object{"cpu": 4, "memory": "8Gi"}, "limits": object{"memory": "9Gi"}, "overcommitGuestOverhead": on,
		},
		"rootVolume": object{
			"source": object{"http": object{"url": "https://images.example.com/linux.qcow2"}}, "contentType": "kubevirt",
			"priorityClassName": "p", "preallocation": on,
			"pvc": object{
				"accessModes": []string{"ReadWriteMany"}, "storageClassName": "fast", "volumeMode": "Block",
				"volumeName": "v", "selector": object{"matchLabels": object{"a": "b"}},
				"dataSource": object{"kind": "PersistentVolumeClaim", "name": "golden"},
				"resources":  object{"requests": object{"storage": "20Gi"}, "limits": object{"storage": "30Gi"}},
			},
		},
		"additionalVolumes": []object{
			{"name": "data", "dataVolume": object{
				"sourceRef": object{"kind": "DataSource", "name": "empty", "namespace": "images"},
				"storage":   object{"resources": size("5Gi")},
			}},
			{"name": "scratch", "volumeSource": object{"emptyDisk": object{"capacity": "1Gi"}}},
		},
		"devices": object{
			"rng": object{}, "blockMultiQueue": on, "networkInterfaceMultiqueue": on,
			"gpus": []object{{"name": "gpu1", "deviceName": "nvidia.com/TU104GL"}},
			"disks": []object{
				{
					"name": "root-disk", "serial": "s1", "cache": "none", "io": "native", "tag": "t", "dedicatedIOThread": on,
					"disk": object{"bus": "scsi"}, "blockSize": object{"matchVolume": object{}},
				},
				{"name": "data", "lun": object{"bus": "scsi"}},
				{"name": "scratch", "cdrom": object{"bus": "sata"}},
			},
		},
		"sshKeys":  []string{"ssh-ed25519 AAAA user"},
		"networks": []object{{"name": "default/workers", "default": true}, {"name": "default/storage"}},
		"cpu": object{
			"cores": 2, "sockets": 2, "threads": 1, "model": "host-passthrough", "features": []object{{"name": "vmx"}},
			"dedicatedCpuPlacement": on, "isolateEmulatorThread": on, "numa": object{"guestMappingPassthrough": object{}},
		},
		"memory":    object{"guest": "8Gi", "hugepages": object{"pageSize": "2Mi"}},
		"dnsPolicy": "None", "dnsConfig": object{
			"nameservers": []string{"10.0.0.10"}, "searches": []string{"example.com"},
			"options": []object{{"name": "ndots", "value": "2"}},
		},
		"preference":   object{"name": "linux"},
		"architecture": "arm64", "runStrategy": "RerunOnFailure", "evictionStrategy": "External",
		"topologySpreadConstraints": []object{
			{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
		},
		"tags": tags("c1", "node", "team", "a"),
	}
}
