"""What several commands share: opening the store, changing a status, answering approvals, and so on."""
