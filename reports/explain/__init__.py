"""Why a comparison came out as it did, and what another device could give: stored runs only."""
