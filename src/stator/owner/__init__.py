"""Who this user is to a store: the user's own key, the stores and projects the user made or trusted, and the
passphrase that proves a person.

Everything here lies in the user's data folder, outside any store and any project: nothing that a cloned
repository, a bundle or a copied file brings can change it. The hook imports parts of it, so it loads nothing heavy.
"""
