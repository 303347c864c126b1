// Package hetznertest is a server that behaves as Hetzner Cloud's API does, as far as the driver
// calls it: servers with their addresses and states, floating IPs, volumes, and what servers are
// made from.
//
// What it knows of the API's form is schema.json, an extract of the types of Hetzner's own client
// library. Each request is compared with it before anything else happens, and each answer after.
// States follow from a clock, and nothing runs by itself.
//
// Where its unkind answers come from:
//
//   - a full placement group, and one that counts members which it does not show (Lingering):
//     hetznercloud/terraform-provider-hcloud issue 1170, which has code and text. The HTTP status is invented.
//   - no host for a placement group (NoSpread): the code and text of xetys/hetzner-kube issue 112; that it may be
//     the group is a guess of 23technologies/gardener-extension-provider-hcloud issue 11.
//   - networks that come after the server: hetznercloud/hcloud-go issue 168; servers that do not start without:
//     hetznercloud/terraform-provider-hcloud issue 1265. The codes of attach_to_network are those of hcloud-go.
//   - a server type that a location does not have: autobase-tech/autobase issue 1403.
//   - the token in the text of a rate limit, servers that are left off, and names that are taken: reports that were
//     read and are not cited here.
//
// Invented are: that attach_to_network fails after it was accepted (AttachFails; an action can, by its type), that a
// placement group shows a member late (GroupLag), that a type which is listed for a location is refused there with
// the same text as one that is not (Refused; users' notes say so), all durations, and all other texts.
package hetznertest
