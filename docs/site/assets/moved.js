// Follows an address to where what it named is now. Addresses are relative to the page.
"use strict";
{
  const moved = JSON.parse(document.documentElement.dataset.moved);
  const to = moved[location.hash] || moved[""];
  if (to) location.replace(to);
}
